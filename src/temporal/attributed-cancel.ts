/**
 * The SDK's `cancel` takes no reason, although Temporal's request has one and history keeps it. This can go when the
 * SDK's handle takes a reason.
 */
import { randomUUID } from 'node:crypto';
import { WorkflowClient, type Client, type WorkflowCancelInput } from '@temporalio/client';
import { workflowOptionsOf } from './workflow-clients.js';

/** Who asks for a cancellation, and why. */
interface CancelAttribution {
  by?: string | undefined;
  note?: string | undefined;
}

/**
 * The client's workflows, whose cancellations tell who asks, as the identity, and why, as the reason. Both are plain
 * text in history, whatever codec the client has.
 */
export function attributedWorkflowClient(client: Client, attribution: CancelAttribution): WorkflowClient {
  return new AttributedWorkflowClient(client, attribution);
}

class AttributedWorkflowClient extends WorkflowClient {
  readonly #reason: string;

  constructor(client: Client, { by, note }: CancelAttribution) {
    super({ ...workflowOptionsOf(client), identity: by ?? client.options.identity });
    this.#reason = note ?? '';
  }

  protected override async _cancelWorkflowHandler({ workflowExecution, firstExecutionRunId }: WorkflowCancelInput) {
    const { namespace, identity } = this.options;
    try {
      return await this.workflowService.requestCancelWorkflowExecution({
        namespace,
        identity,
        requestId: randomUUID(),
        workflowExecution,
        firstExecutionRunId: firstExecutionRunId ?? '',
        reason: this.#reason,
      });
    } catch (error) {
      this.rethrowGrpcError(error, 'Failed to cancel workflow', workflowExecution);
    }
  }
}

/**
 * Decides what history says of a cancellation: who asks, as the identity, and why, as the reason. Both are plain text
 * there, whatever codec the client has.
 *
 * Needs: the handler of the SDK's client below its interceptors.
 * Can go when: the SDK's `cancel` takes a reason.
 * Test: `test/private/client.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { type Client, type WorkflowCancelInput, WorkflowClient } from '@temporalio/client';
import { workflowOptionsOf } from '../workflow-clients.js';

/** The client's workflows, with cancellations that say it. */
export class CancelClient extends WorkflowClient {
  readonly #reason: string;

  constructor(client: Client, { by, note }: { by?: string | undefined; note?: string | undefined }) {
    super({ ...workflowOptionsOf(client), identity: by ?? client.options.identity });
    this.#reason = note ?? '';
  }

  protected override async _cancelWorkflowHandler({
    workflowExecution,
    firstExecutionRunId = '',
  }: WorkflowCancelInput) {
    const { namespace, identity } = this.options;
    const request = { namespace, identity, requestId: randomUUID(), workflowExecution, firstExecutionRunId };
    try {
      return await this.workflowService.requestCancelWorkflowExecution({ ...request, reason: this.#reason });
    } catch (error) {
      this.rethrowGrpcError(error, 'Failed to cancel workflow', workflowExecution);
    }
  }
}

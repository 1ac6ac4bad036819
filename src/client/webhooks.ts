/** Deliveries of webhooks that were given up, and how they are sent again. */
import { randomUUID } from 'node:crypto';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { WEBHOOK_DELIVERY_WORKFLOW } from '../contract/webhooks.js';
import { InvalidInputError } from '../contract/input-checks.js';
import { nullIfGone, readDescription } from './agent-job/run-record.js';
import { type CallOptions, listWorkflows, temporalCall } from './temporal-call.js';

/** A delivery that no run of it is left to make. */
export interface UndeliveredWebhook {
  workflowId: string;
  /** Of the event. */
  type: string | null;
  /** The workflow that it tells of. */
  of: string | null;
  /** The origin of the endpoint. */
  to: string | null;
  givenUpAt: string | null;
}

const GIVEN_UP =
  `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND ` +
  `ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut', 'Canceled')`;

/** Lists those whose newest run gave up; `timeoutMs` is for each request. */
export async function* listUndelivered(
  client: Client,
  options: CallOptions = {},
): AsyncGenerator<UndeliveredWebhook, void, undefined> {
  for await (const run of listWorkflows(client, GIVEN_UP, options)) {
    // Sent again, it has another run. Temporal deletes a closed one a while before it lists it no more.
    const newest = await temporalCall(client, options, () => readDescription(client, run.workflowId)).catch(nullIfGone);
    if (newest?.runId === run.runId) yield toUndelivered(run);
  }
}

function toUndelivered({ workflowId, memo, closeTime }: WorkflowExecutionInfo): UndeliveredWebhook {
  const { type = null, of = null, to = null } = (memo ?? {}) as Partial<UndeliveredWebhook>;
  return { workflowId, type, of, to, givenUpAt: closeTime?.toISOString() ?? null };
}

const TASK_COMPLETED = 7; // temporal.api.enums.v1.EventType

/**
 * Begins a delivery anew, with the same id and body, whatever became of it: Temporal resets its newest run to its first
 * task. Throws InvalidInputError where the id is that of another workflow.
 */
export async function resendWebhook(client: Client, workflowId: string, options: CallOptions = {}): Promise<void> {
  await temporalCall(client, options, async () => {
    const { runId, type } = await readDescription(client, workflowId);
    if (type !== WEBHOOK_DELIVERY_WORKFLOW) {
      throw new InvalidInputError(
        'delivery',
        `must be the id of a ${WEBHOOK_DELIVERY_WORKFLOW}: this one is of ${type}`,
      );
    }
    const { namespace, identity } = client.options;
    const execution = { workflowId, runId };
    const { history } = await client.workflowService.getWorkflowExecutionHistory({ namespace, execution });
    const begun = history?.events?.find(({ eventType }) => Number(eventType) === TASK_COMPLETED);
    if (!begun) throw new InvalidInputError('delivery', 'has not begun: it is sent as soon as a worker runs');
    await client.workflowService.resetWorkflowExecution({
      ...{ namespace, identity, workflowExecution: execution, reason: 'webhooks resend' },
      workflowTaskFinishEventId: begun.eventId!,
      requestId: randomUUID(),
    });
  });
}

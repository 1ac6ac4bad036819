/** Lists the deliveries of webhooks that were given up. */
import type { Client } from '@temporalio/client';
import { WEBHOOK_DELIVERY_WORKFLOW } from '../contract/webhooks.js';
import { nullIfGone, readDescription } from './agent-job/run-record.js';
import { listWorkflows, temporalCall } from './temporal-call.js';
import type { CallOptions } from './settings.js';

/** A delivery that was given up. */
interface UndeliveredWebhook {
  workflowId: string;
  /** The type of the event. */
  type: string | null;
  /** The workflow that the event is about. */
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
  for await (const { workflowId, runId, memo, closeTime } of listWorkflows(client, GIVEN_UP, options)) {
    // A reset makes another run. Temporal's list shows a deleted run for a while.
    const newest = await temporalCall(client, options, () => readDescription(client, workflowId)).catch(nullIfGone);
    if (newest?.runId !== runId) continue;
    const { type = null, of = null, to = null } = (memo ?? {}) as Partial<UndeliveredWebhook>;
    yield { workflowId, type, of, to, givenUpAt: closeTime?.toISOString() ?? null };
  }
}

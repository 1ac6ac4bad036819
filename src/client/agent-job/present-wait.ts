/**
 * What a job's workflow can't tell of its wait: its present place in the queue, and that no worker has begun the write
 * that it handed out.
 */
import type { Client } from '@temporalio/client';
import { queuePlaceQuery, requestQueueId, type JobState, type QueuePlace, type Waiting } from '../../contract.js';
import { temporalCall, type CallOptions } from '../temporal-call.js';
import { readDescription } from './run-record.js';
import { askWorkflow } from '../../temporal/query-again.js';

/** Worth no long wait: without an answer the state stays as the workflow tells it. */
const MAX_ASK_MS = 1_500;
const WRITE_ACTIVITIES: readonly unknown[] = ['createJob', 'sendMessage'];
const SCHEDULED = 1; // temporal.api.enums.v1.PendingActivityState

/** The same state with its wait as it is now; `timeoutMs` is what the caller's time has left. */
export async function withPresentWait(
  client: Client,
  workflowId: string,
  state: JobState,
  { signal, timeoutMs }: CallOptions,
): Promise<JobState> {
  const leftMs = timeoutMs ?? MAX_ASK_MS;
  const ask = presentWait(client, workflowId, state);
  if (!ask || leftMs <= 0) return state;
  try {
    const limits = { signal, timeoutMs: Math.min(leftMs, MAX_ASK_MS) };
    return { ...state, waiting: await temporalCall(client, limits, ask) };
  } catch {
    signal?.throwIfAborted();
    return state;
  }
}

/** How to ask for it; null where the workflow knows all there is. */
function presentWait(client: Client, workflowId: string, state: JobState): (() => Promise<Waiting | null>) | null {
  const { phase, projectId, waiting } = state;
  if (waiting?.for === 'turn' || waiting?.position !== undefined) {
    const operation = phase === 'creating' ? 'create' : 'message';
    const queue = { workflowId: requestQueueId({ operation, projectId }) };
    return async () => atPlace(waiting, await askWorkflow(client, queue, queuePlaceQuery, workflowId));
  }
  // The release of an older worker may not tell it.
  const isSending = waiting === null && phase !== 'done';
  return isSending ? () => untilBegun(client, workflowId) : null;
}

/** Without a place its turn is on its way, or the queue has forgotten it: then the job asks again by itself. */
function atPlace({ position: _, until, ...waiting }: Waiting, place: QueuePlace | null): Waiting {
  if (!place) return { ...waiting, ...(until !== undefined && { until }) };
  const { position, expectedAt } = place;
  return { ...waiting, for: place.for, position, ...(expectedAt !== undefined && { until: expectedAt }) };
}

/** A write that was handed out and that no worker has begun: nothing is under way. */
async function untilBegun(client: Client, workflowId: string): Promise<Waiting | null> {
  const { raw } = await readDescription(client, workflowId);
  const write = raw.pendingActivities?.find(({ activityType }) => WRITE_ACTIVITIES.includes(activityType?.name));
  if (write?.state !== SCHEDULED) return null;
  const { lastFailure, scheduledTime, nextAttemptScheduleTime } = write;
  const after = lastFailure?.message ? `; the attempt before ended: ${lastFailure.message}` : '';
  const until = isoTime(nextAttemptScheduleTime);
  return {
    for: 'turn',
    since: isoTime(scheduledTime) ?? new Date().toISOString(),
    ...(until !== undefined && { until }),
    reason: `no worker has begun it yet: all are busy, or UPSTREAM_REQUESTS_PER_SECOND holds it back${after}`,
  };
}

function isoTime(time: { seconds?: unknown; nanos?: number | null } | null | undefined): string | undefined {
  const ms = Number(time?.seconds ?? 0) * 1_000 + Math.trunc((time?.nanos ?? 0) / 1_000_000);
  return ms > 0 ? new Date(ms).toISOString() : undefined;
}

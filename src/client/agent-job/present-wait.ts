/**
 * What a job's workflow can't tell of its wait: that no worker has begun the write that it handed out, and that its
 * polls fail.
 */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import type { JobState, Waiting } from '../../contract.js';
import { temporalCall, type CallOptions } from '../temporal-call.js';
import { readDescription } from './run-record.js';
import { decodeFirst } from './start-input.js';

/** Worth no long wait: without an answer the state stays as the workflow tells it. */
const MAX_ASK_MS = 1_500;
const SCHEDULED = 1; // temporal.api.enums.v1.PendingActivityState
/** The worker's words after each read, healthy ones too. */
const LAST_READ = /^(.+?)(, \d+ times in a row)?, next poll in \d+ s$/s;

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
function presentWait(
  client: Client,
  workflowId: string,
  { phase, waiting }: JobState,
): (() => Promise<Waiting | null>) | null {
  if (isPolling(waiting))
    return async () => failedPoll(client, (await readDescription(client, workflowId)).raw, waiting);
  const isSending = waiting === null && phase !== 'done';
  return isSending ? () => untilBegun(client, workflowId) : null;
}

/** With a time the workflow itself waits: no poll is handed out. */
function isPolling(waiting: Waiting | null): waiting is Waiting {
  return waiting?.for === 'poll' && !waiting.until;
}

/** A state, with what its run told of the last poll before: the next one may have been under way when it was read. */
export async function withLastRead(client: Client, raw: Raw, state: JobState): Promise<JobState> {
  const { waiting } = state;
  return isPolling(waiting)
    ? { ...state, waiting: await failedPoll(client, raw, waiting).catch(() => waiting) }
    : state;
}

/** A write that was handed out and that no worker has begun: nothing is under way. */
async function untilBegun(client: Client, workflowId: string): Promise<Waiting | null> {
  const { raw } = await readDescription(client, workflowId);
  const write = scheduled(raw, 'createJob', 'sendMessage');
  if (!write) return null;
  const { lastFailure, scheduledTime } = write;
  const after = lastFailure?.message ? `; the attempt before ended: ${lastFailure.message}` : '';
  const reason = `no worker has begun it yet: all are busy, or UPSTREAM_REQUESTS_PER_SECOND holds it back${after}`;
  return { for: 'turn', ...timesOf(scheduledTime, write), reason };
}

/**
 * How the last read ended, in the same words as long as the next ones end so. Undefined where the wording is unknown,
 * and while an attempt is under way: it may hold the job for long, and keeps what the one before it told.
 */
export function lastRead(raw: Raw): string | undefined {
  return LAST_READ.exec(scheduled(raw, 'pollJob')?.lastFailure?.message ?? '')?.[1];
}

/** What the job waits for where its last read failed; throws where the client lacks the payloads' key. */
export async function failedPoll(client: Client, raw: Raw, waiting: Waiting): Promise<Waiting> {
  const poll = scheduled(raw, 'pollJob');
  const reason = lastRead(raw);
  // A healthy read ends by a failure too: its figures tell them apart.
  const figures = await decodeFirst<Figures>(client, poll?.heartbeatDetails?.payloads);
  // An answer 404 may mean a job that is lost.
  if (!poll || !reason || !figures?.failures || figures.notFound) return waiting;
  // As the workflow itself takes them.
  const what = reason.endsWith(' 401') ? 'key' : reason.endsWith(' 429') ? 'rateLimit' : 'upstream';
  return { for: what, ...timesOf(poll.lastAttemptCompleteTime, poll), reason };
}

/** What a poll batch keeps between its attempts. */
interface Figures {
  failures?: number;
  notFound?: number;
}

type Raw = WorkflowExecutionDescription['raw'];
type Activity = NonNullable<Raw['pendingActivities']>[number];

/** The activity of these types that waits for a worker, or for its next attempt. */
function scheduled({ pendingActivities }: Raw, ...types: unknown[]): Activity | undefined {
  return pendingActivities?.find(
    ({ activityType, state }) => state === SCHEDULED && types.includes(activityType?.name),
  );
}

function timesOf(since: Time, { nextAttemptScheduleTime }: Activity): Pick<Waiting, 'since' | 'until'> {
  const until = timeOf(nextAttemptScheduleTime);
  return { since: timeOf(since) ?? new Date().toISOString(), ...(until !== undefined && { until }) };
}

type Time = { seconds?: unknown; nanos?: number | null } | null | undefined;

function timeOf(time: Time): string | undefined {
  const ms = Number(time?.seconds ?? 0) * 1_000 + Math.trunc((time?.nanos ?? 0) / 1_000_000);
  return ms > 0 ? new Date(ms).toISOString() : undefined;
}

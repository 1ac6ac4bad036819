/** Requests to the newest run of a job: what each failure of them means to the caller. */
import {
  type Client,
  QueryRejectedError,
  WorkflowClient,
  type WorkflowExecutionDescription,
  type WorkflowHandle,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { type QueryDefinition, WorkflowNotFoundError } from '@temporalio/common';
import { ENDED_BY } from '../../agent-job/closed-run.js';
import { type AgentJobResult, type JobOutcome, type JobState, jobStateQuery, type Waiting } from '../../contract.js';
import { defineQuery } from '../../contract/shared.js';
import { isoTime, isOpen } from '../../temporal/open-workflows.js';
import { askWorkflow, queryAgain, workflowOptionsOf } from '../../temporal/workflow-clients.js';
import { JobEndedError, JobNotFoundError, MessageRefusedError } from '../errors.js';
import { type CallOptions, START_TIMEOUT_MS, temporalCall } from '../temporal-call.js';
import { isNoAnswer } from '../temporal-errors.js';
import { noAnswerError } from './no-answer.js';
import { decodeFirst, readClosedRun, readDescription, type RunRecord } from './run-record.js';

/** Calls Temporal about a job; throws MessageRefusedError, JobEndedError and JobNotFoundError. */
export async function callJob<T>(
  client: Client,
  workflowId: string,
  options: CallOptions,
  call: (handle: WorkflowHandle) => Promise<T>,
  isAgain = false,
): Promise<T> {
  try {
    return await temporalCall(client, options, () => call(client.workflow.getHandle(workflowId)));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      const why = await whyNotFound(client, workflowId, options, error);
      if (why === null && !isAgain) return callJob(client, workflowId, options, call, true);
      throw why ?? new JobNotFoundError(workflowId, 'no such workflow was running yet', { cause: error });
    }
    if (error instanceof WorkflowUpdateFailedError) {
      throw new MessageRefusedError(workflowId, error.cause?.message ?? error.message, { cause: error });
    }
    throw error;
  }
}

/** A call that a worker answers; throws NoWorkerError besides, or JobPausedError. */
export async function askWorker<T>(
  client: Client,
  workflowId: string,
  options: CallOptions,
  ask: (handle: WorkflowHandle) => Promise<T>,
): Promise<T> {
  try {
    return await callJob(client, workflowId, options, ask);
  } catch (error) {
    if (options.signal?.aborted || !isNoAnswer(error)) throw error;
    throw await noAnswerError(client, workflowId, options.signal, error);
  }
}

/** Reads a job's state, with its present wait; by default a worker may take longer, as behind a burst of starts. */
export async function readState(client: Client, workflowId: string, options: CallOptions): Promise<JobState> {
  const { signal } = options;
  const timeoutMs = options.timeoutMs ?? START_TIMEOUT_MS;
  const startedAt = performance.now();
  const state = await askWorker(client, workflowId, { signal, timeoutMs }, () => queryState(client, workflowId));
  if (state.outcome !== null) return state;
  const leftMs = timeoutMs - (performance.now() - startedAt);
  return withPresentWait(client, workflowId, state, { signal, timeoutMs: leftMs });
}

/** Temporal says the same of a workflow that never was and of one that has ended; null where it has begun since. */
async function whyNotFound(
  client: Client,
  workflowId: string,
  { signal }: CallOptions,
  cause: WorkflowNotFoundError,
): Promise<Error | null> {
  try {
    const { status } = await temporalCall(client, { signal }, () => readDescription(client, workflowId));
    return isOpen(status.name) ? null : new JobEndedError(workflowId, status.name, { cause });
  } catch (error) {
    return error as Error;
  }
}

// Reads a job's state from a worker. No workflow knows that it was terminated or met a time-out: how a closed run
// ended is read from Temporal then.

/** Asks the newest run; a running one costs one request. */
async function queryState(client: Client, workflowId: string): Promise<JobState> {
  try {
    return await askRunning(client, workflowId, jobStateQuery);
  } catch (error) {
    if (!(error instanceof QueryRejectedError)) throw error;
  }
  const { runId, status } = await readDescription(client, workflowId);
  const isClosed = !isOpen(status.name);
  const run = { workflowId, runId };
  const state = await (isClosed ? askClosedRun(client, run) : askWorkflow(client, run, jobStateQuery));
  if (state.outcome !== null || !isClosed) return state;
  return ended(state, ENDED_BY[status.name] ?? null);
}

const closedStateQuery = defineQuery<JobState, [{ isClosed: true }]>(jobStateQuery.name);

/** As it was when a worker last took what had come: of what came later it says nothing. */
export function askClosedRun(client: Client, run: { workflowId: string; runId: string }): Promise<JobState> {
  return askWorkflow(client, run, closedStateQuery, { isClosed: true });
}

/** Asks the newest run while it is open; throws QueryRejectedError of one that is closed, or paused. */
export function askRunning<Answer>(
  client: Client,
  workflowId: string,
  query: QueryDefinition<Answer>,
): Promise<Answer> {
  const workflows = new WorkflowClient({ ...workflowOptionsOf(client), queryRejectCondition: 'NOT_OPEN' });
  return queryAgain(() => workflows.getHandle(workflowId).query(query));
}

/**
 * The last state of a job that ended while no worker runs: by the result, or the last one that was read, ended. Null
 * where neither is known: a failure tells nothing of follow-ups, and an empty list would be untrue.
 */
export async function stateAtEnd(client: Client, run: RunRecord, last: JobState | null): Promise<JobState | null> {
  const { end, result } = await readClosedRun(client, run);
  if (result !== null) return fromResult(result);
  return last && ended(last, end === 'OtherFailure' ? null : (end as JobOutcome));
}

function ended(last: JobState, outcome: JobOutcome | null): JobState {
  return { ...last, phase: 'done', waiting: null, outcome };
}

function fromResult({ finishedAt, ...told }: AgentJobResult): JobState {
  return { ...told, phase: 'done', unknown: null, waiting: null, lastChangeAt: finishedAt };
}

// What a job's workflow can't tell of its wait: that no worker has begun the write that it handed out, and that its
// polls fail.

/** Worth no long wait: without an answer the state stays as the workflow tells it. */
const MAX_ASK_MS = 1_500;
const SCHEDULED = 1; // temporal.api.enums.v1.PendingActivityState
/** The worker's words after each read, healthy ones too. */
const LAST_READ = /^(.+?)(, \d+ times in a row)?, next poll in \d+ s$/s;

/** The same state with its wait as it is now; `timeoutMs` is what the caller's time has left. */
async function withPresentWait(
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
  const what = / 40[13]$/.test(reason) ? 'key' : reason.endsWith(' 429') ? 'rateLimit' : 'upstream';
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

function timesOf(
  since: Parameters<typeof isoTime>[0],
  { nextAttemptScheduleTime }: Activity,
): Pick<Waiting, 'since' | 'until'> {
  const until = isoTime(nextAttemptScheduleTime);
  return { since: isoTime(since) ?? new Date().toISOString(), ...(until !== undefined && { until }) };
}

/**
 * Waits of days, over outages of Temporal and times without a worker: for a job's result, or a typed error for each end
 * without one, and for each state that differs. A round of a watch asks Temporal for the length of the run's history,
 * and a worker for the state only once that has grown: nothing else changes without an event. The pause between two
 * rounds grows, and Temporal ends it when the run closes.
 */
import { WorkflowContinuedAsNewError, WorkflowFailedError, type Client } from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import { endOf } from '../../agent-job/closed-run.js';
import type { AgentJobResult, JobState } from '../../contract.js';
import { InvalidInputError } from '../../contract/errors.js';
import {
  CreateRejectedError,
  JobCanceledError,
  JobFailedError,
  JobNotFoundError,
  JobTerminatedError,
  NoWorkerError,
  UnknownOutcomeError,
} from '../errors.js';
import type { CallOptions, ClientContext, Logger, WaitOptions } from '../settings.js';
import { longWait, pauseUntilAborted, temporalCall, waitSignal } from '../temporal-call.js';
import { readState, stateAtEnd } from './call-job.js';
import { NO_SUCH_WORKFLOW, readRun, type RunRecord } from './run-record.js';

/** Waits for a job's end, over continue-as-new and outages of Temporal; throws the typed error of each failure. */
export function waitForResult(
  client: Client,
  workflowId: string,
  signal?: AbortSignal | null,
  logger?: Logger,
): Promise<AgentJobResult> {
  return longWait(client, signal, () => readResult(client, workflowId), { logger });
}

async function readResult(client: Client, workflowId: string): Promise<AgentJobResult> {
  try {
    return (await client.workflow.result(workflowId)) as AgentJobResult;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      throw new JobNotFoundError(workflowId, NO_SUCH_WORKFLOW, { cause: error });
    }
    if (!(error instanceof WorkflowFailedError)) throw error;
    throw await toTypedError(client, workflowId, error);
  }
}

async function toTypedError(client: Client, workflowId: string, error: WorkflowFailedError): Promise<Error> {
  const { cause } = error;
  const end = endOf(cause);
  const [details] = (cause instanceof ApplicationFailure && cause.details) || [];
  const message = cause?.message ?? error.message;
  if (end === 'InvalidInput') return toInvalidInput(message, details as { field?: string } | undefined);
  if (end === 'CreateRejected') {
    return new CreateRejectedError(workflowId, { ...NO_DETAILS.createRejected, ...(details as object) }, { cause });
  }
  const { jobId, prLink } = await readRun(client, workflowId);
  const options = { cause, prLink };
  switch (end) {
    case 'UnknownOutcome':
      return new UnknownOutcomeError(workflowId, { ...NO_DETAILS.unknownOutcome, ...(details as object) }, options);
    case 'OtherFailure':
      return new JobFailedError(workflowId, message, options);
    case 'Canceled':
      return new JobCanceledError(workflowId, jobId, options);
    default:
      return new JobTerminatedError(workflowId, message, jobId, options);
  }
}

/** For a failure that has lost its details, such as one that a codec can't decode. */
const NO_DETAILS = {
  createRejected: { status: 0, error: 'no details are left' },
  unknownOutcome: { kind: 'create', jobId: null, followUpId: null, reason: 'no details are left' },
} as const;

/** The message reads "<field> must …". */
function toInvalidInput(message: string, { field = 'input' }: { field?: string } = {}): InvalidInputError {
  return new InvalidInputError(field, message.startsWith(`${field} `) ? message.slice(field.length + 1) : message);
}

/** A change of a quiet job is seen within half a minute, that of a busy one within a second. */
const PACE = { minMs: 1_000, maxMs: 30_000, ratio: 1.5 };

type WatchContext = Pick<ClientContext, 'client' | 'logger' | 'timeoutMs'>;

interface Seen {
  run: RunRecord;
  state: JobState;
  isOver: boolean;
}

/** Yields the present state and each one that differs from it, until the last; the rounds go on over outages. */
export async function* watchJob(
  { client, logger, timeoutMs }: WatchContext,
  workflowId: string,
  { signal: given }: WaitOptions,
  pace = PACE,
): AsyncGenerator<JobState, void, undefined> {
  const { signal, release } = waitSignal(client, given);
  const limits = { signal, timeoutMs };
  let last: Seen | null = null;
  let waitMs = pace.minMs;
  try {
    for (;;) {
      const before: Seen | null = last;
      const round = (): Promise<Seen> => poll(client, workflowId, limits, before);
      const seen: Seen = await longWait(client, signal, round, { logger, wasAccepted: before !== null });
      const isNew = before === null || shownOf(seen.state) !== shownOf(before.state);
      if (isNew) yield seen.state;
      if (seen.isOver) return;
      last = seen;
      waitMs = isNew ? pace.minMs : Math.min(waitMs * pace.ratio, pace.maxMs);
      await pauseUntilClosed(client, seen.run, { signal, timeoutMs: waitMs });
    }
  } finally {
    release();
  }
}

async function poll(client: Client, workflowId: string, limits: CallOptions, before: Seen | null): Promise<Seen> {
  const readNewest = () => temporalCall(client, limits, () => readRun(client, workflowId));
  const run = await readNewest();
  if (run.isRunning || run.workflowStatus === 'CONTINUED_AS_NEW') {
    const isSame = before?.run.runId === run.runId && before.run.historyLength === run.historyLength;
    return { run, state: isSame ? before.state : await readState(client, workflowId, limits), isOver: false };
  }
  const state = await readStateAtEnd(client, run, limits, before?.state ?? null);
  // A follow-up may have begun a new run while the state of the ended one was read.
  return { run, state, isOver: (await readNewest()).runId === run.runId };
}

/** A worker knows most. Without one, what Temporal itself knows must do, or the wait goes on until there is one. */
async function readStateAtEnd(
  client: Client,
  run: RunRecord,
  limits: CallOptions,
  last: JobState | null,
): Promise<JobState> {
  try {
    return await readState(client, run.workflowId, limits);
  } catch (error) {
    if (!(error instanceof NoWorkerError || error instanceof JobTerminatedError)) throw error;
    const state = await temporalCall(client, limits, () => stateAtEnd(client, run, last));
    if (state !== null) return state;
    throw error;
  }
}

/** What makes a state another one: neither the number of polls, nor that a poll comes or is under way. */
export function shownOf({ polls: _, waiting, ...shown }: JobState): string {
  const { for: reason = 'poll', position, reason: text } = waiting ?? {};
  return JSON.stringify({ ...shown, waiting: [reason, position, text] });
}

/** Ends sooner if the run closes, or the signal is aborted: the next round then throws its reason. */
async function pauseUntilClosed(
  client: Client,
  { workflowId, runId }: RunRecord,
  limits: { signal: AbortSignal; timeoutMs: number },
): Promise<void> {
  const until = performance.now() + limits.timeoutMs;
  try {
    await temporalCall(client, limits, () => client.workflow.result(workflowId, runId, { followRuns: false }));
  } catch (error) {
    if (error instanceof WorkflowFailedError || error instanceof WorkflowContinuedAsNewError) return;
    // Temporal has not answered in time, or not at all.
    await pauseUntilAborted(Math.max(0, until - performance.now()), limits.signal);
  }
}

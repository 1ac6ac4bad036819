/**
 * Watching a job: when Temporal is asked, when a worker, and which state is another one. A round asks Temporal for the
 * length of the run's history, and a worker for the state only once that has grown: nothing else changes without an
 * event. The wait between two rounds grows. Temporal ends it when the run closes, so the end is seen at once.
 */
import { WorkflowContinuedAsNewError, WorkflowFailedError, type Client } from '@temporalio/client';
import type { JobState } from '../../contract.js';
import type { ClientContext } from '../settings.js';
import { JobTerminatedError, NoWorkerError } from '../errors.js';
import {
  longWait,
  pauseUntilAborted,
  temporalCall,
  waitSignal,
  type CallOptions,
  type WaitOptions,
} from '../temporal-call.js';
import { readState, stateAtEnd } from './call-job.js';
import { readRun, type RunRecord } from './run-record.js';

/** A change of a quiet job is seen within half a minute, that of a busy one within a second. */
const PACE = { minMs: 1_000, maxMs: 30_000, ratio: 1.5 };

type WatchContext = Pick<ClientContext, 'client' | 'logger' | 'timeoutMs'>;

/** What a round found. */
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
      const round = (): Promise<Seen> => look(client, workflowId, limits, before);
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

async function look(client: Client, workflowId: string, limits: CallOptions, before: Seen | null): Promise<Seen> {
  const readNewest = () => temporalCall(client, limits, () => readRun(client, workflowId));
  const run = await readNewest();
  if (run.isRunning || run.status === 'CONTINUED_AS_NEW') {
    const isSame = before?.run.runId === run.runId && before.run.historyLength === run.historyLength;
    return { run, state: isSame ? before.state : await readState(client, workflowId, limits), isOver: false };
  }
  const state = await readStateAtEnd(client, run, limits, before?.state ?? null);
  // A follow-up may have begun a new run while the state of the ended one was read.
  return { run, state, isOver: (await readNewest()).runId === run.runId };
}

/** A worker tells most; without one, what Temporal itself knows must do, or a worker is waited for. */
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

/** What makes a state another one: not how often the job was read, nor that a poll comes or is under way. */
export function shownOf({ polls: _, waiting, ...told }: JobState): string {
  const { for: reason = 'poll', position, reason: text } = waiting ?? {};
  return JSON.stringify({ ...told, waiting: [reason, position, text] });
}

/** Ends sooner where the run closes, and where the signal is aborted: the next round then throws its reason. */
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
    await pauseUntilAborted(client, Math.max(0, until - performance.now()), limits.signal);
  }
}

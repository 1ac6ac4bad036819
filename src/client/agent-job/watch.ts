/**
 * Watching a job: when Temporal is asked, when a worker, and which state is another one.
 *
 * A round asks Temporal alone for the length of the run's history. A worker is asked for the state only once that has
 * grown, for nothing else changes without an event. The wait between two rounds grows while
 * nothing changes. It is one request that Temporal answers when the run closes, so the end is seen at once.
 */
import { WorkflowContinuedAsNewError, WorkflowFailedError, type Client } from '@temporalio/client';
import type { JobState } from '../../contract.js';
import type { ClientContext } from '../settings.js';
import { JobTerminatedError, NoWorkerError, TemporalCallError } from '../errors.js';
import {
  pauseUntilAborted,
  temporalCall,
  throwIfOver,
  waitSignal,
  type CallOptions,
  type WaitOptions,
} from '../temporal-call.js';
import { isOutage } from '../temporal-errors.js';
import { readState, stateAtEnd } from './call-job.js';
import { readRun, type RunRecord } from './run-record.js';

/** The waits between two rounds. */
interface Pace {
  minMs: number;
  maxMs: number;
  /** Of a wait to the one before it. */
  ratio: number;
}

/** A change of a quiet job is seen within half a minute, that of a busy one within a second. */
const PACE: Pace = { minMs: 1_000, maxMs: 30_000, ratio: 1.5 };
/** So long a definite error may still be an outage's: a server that starts sends many. */
const DOUBT_MS = 5 * 60_000;

type WatchContext = Pick<ClientContext, 'client' | 'logger' | 'timeoutMs'>;

/** Yields the present state and each one that differs from it, until the last; the rounds go on over outages. */
export async function* watchJob(
  context: WatchContext,
  workflowId: string,
  { signal: given }: WaitOptions,
  pace = PACE,
): AsyncGenerator<JobState, void, undefined> {
  const { signal, release } = waitSignal(context.client, given);
  try {
    const watch = new Watch(context, workflowId, signal);
    let waitMs = pace.minMs;
    for (;;) {
      const seen = await watch.look();
      if (seen.state) yield seen.state;
      if (seen.isOver) return;
      waitMs = seen.state ? pace.minMs : Math.min(waitMs * pace.ratio, pace.maxMs);
      await pauseUntilClosed(context.client, seen.run, waitMs, signal);
    }
  } finally {
    release();
  }
}

/** What one round found: `state` where it differs from the one before; `run` is null during an outage. */
interface Seen {
  state: JobState | null;
  run: RunRecord | null;
  isOver: boolean;
}

class Watch {
  readonly #client: Client;
  readonly #workflowId: string;
  readonly #limits: CallOptions;
  readonly #logger: ClientContext['logger'];
  #last: JobState | null = null;
  /** The run and the length of its history when the state was read. */
  #readAt: string | null = null;
  /** Whether a round, or a worker's absence, was ever told. */
  #hasAnswered = false;
  /** Of the first definite error since all requests of a round were answered. */
  #refusedAt: number | null = null;
  #trouble: 'worker' | 'Temporal' | null = null;

  constructor({ client, logger, timeoutMs }: WatchContext, workflowId: string, signal: WaitOptions['signal']) {
    this.#client = client;
    this.#workflowId = workflowId;
    this.#limits = { signal, timeoutMs };
    this.#logger = logger;
  }

  async look(): Promise<Seen> {
    try {
      const run = await this.#readRun();
      const isEnded = !run.isRunning && run.status !== 'CONTINUED_AS_NEW';
      const state = isEnded ? await this.#stateAtEnd(run) : await this.#stateNow(run);
      // A follow-up may have begun a new run while the state of the ended one was read.
      const isOver = isEnded && (await this.#readRun()).runId === run.runId;
      this.#hasAnswered = true;
      this.#refusedAt = null;
      this.#tell(null);
      return { state: this.#ifNew(state), run, isOver };
    } catch (error) {
      this.#limits.signal?.throwIfAborted();
      throwIfOver(this.#client, error);
      if (!this.#mayPass(error)) throw error;
      this.#tell(error as Error);
      return { state: null, run: null, isOver: false };
    }
  }

  #readRun(): Promise<RunRecord> {
    return temporalCall(this.#client, this.#limits, () => readRun(this.#client, this.#workflowId));
  }

  /** Null where nothing can have changed since it was read. */
  async #stateNow({ runId, historyLength }: RunRecord): Promise<JobState | null> {
    const readAt = `${runId} ${historyLength}`;
    if (readAt === this.#readAt) return null;
    const state = await readState(this.#client, this.#workflowId, this.#limits);
    this.#readAt = readAt;
    return state;
  }

  /** A worker tells most; without one, what Temporal itself knows must do, or a worker is waited for. */
  async #stateAtEnd(run: RunRecord): Promise<JobState> {
    try {
      return await readState(this.#client, this.#workflowId, this.#limits);
    } catch (error) {
      if (!(error instanceof NoWorkerError || error instanceof JobTerminatedError)) throw error;
      const state = await temporalCall(this.#client, this.#limits, () => stateAtEnd(this.#client, run, this.#last));
      if (state !== null) return state;
      throw error;
    }
  }

  #ifNew(state: JobState | null): JobState | null {
    if (state === null || (this.#last !== null && shownOf(state) === shownOf(this.#last))) return null;
    this.#last = state;
    return state;
  }

  /** Whether a later round may get an answer. */
  #mayPass(error: unknown): boolean {
    this.#hasAnswered ||= error instanceof NoWorkerError;
    if (error instanceof NoWorkerError || isOutage(error)) return true;
    if (!(error instanceof TemporalCallError) || !this.#hasAnswered) return false;
    this.#refusedAt ??= Date.now();
    return Date.now() - this.#refusedAt < DOUBT_MS;
  }

  /** Logs a trouble once, and its end. */
  #tell(error: Error | null): void {
    const trouble = error && (error instanceof NoWorkerError ? 'worker' : 'Temporal');
    if (trouble === this.#trouble) return;
    this.#trouble = trouble;
    const meta = { workflowId: this.#workflowId };
    if (error) this.#logger.warn('the watch of a job waits', { ...meta, error });
    else this.#logger.info('the watch of a job goes on', meta);
  }
}

/** What makes a state another one: not how often the job was read, nor that a poll comes or is under way. */
export function shownOf({ polls: _, waiting, ...told }: JobState): string {
  const { for: reason = 'poll', position, reason: text } = waiting ?? {};
  return JSON.stringify({ ...told, waiting: [reason, position, text] });
}

/** Ends sooner where the run closes, and where the signal is aborted: then with its reason. */
async function pauseUntilClosed(
  client: Client,
  run: RunRecord | null,
  waitMs: number,
  signal: WaitOptions['signal'],
): Promise<void> {
  const until = performance.now() + waitMs;
  if (run !== null && (await closesWithin(client, run, waitMs, signal))) return;
  signal?.throwIfAborted();
  const leftMs = until - performance.now();
  if (leftMs > 0) await pauseUntilAborted(client, leftMs, signal);
  signal?.throwIfAborted();
}

/** False where Temporal does not tell. */
async function closesWithin(
  client: Client,
  { workflowId, runId }: RunRecord,
  timeoutMs: number,
  signal: WaitOptions['signal'],
): Promise<boolean> {
  const close = () => client.workflow.result(workflowId, runId, { followRuns: false });
  try {
    await temporalCall(client, { signal, timeoutMs }, close);
    return true;
  } catch (error) {
    return error instanceof WorkflowFailedError || error instanceof WorkflowContinuedAsNewError;
  }
}

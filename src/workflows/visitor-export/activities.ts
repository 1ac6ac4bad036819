/** The export activities as the workflow calls them: time limits, retries and turns. */
import {
  ActivityCancellationType,
  ActivityFailure,
  type ActivityOptions,
  ApplicationFailure,
  ChildWorkflowFailure,
  condition,
  isCancellation,
  log,
  proxyActivities,
  setHandler,
  sleep,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { ExportActivities, ReadChunkResult } from '../../activities/visitor-export/export-activities.js';
import type { TurnRequest } from '../../activities/visitor-export/export-turns.js';
import type { Interruption } from '../../activities/visitor-export/read-pages.js';
import { readTurn } from '../../agent-job/queue-messages.js';
import { askAgainMs, resendWaitMs, throttledWaitMs } from '../../agent-job/waits.js';
import {
  type ExportFailureDetails,
  type ExportRejectedDetails,
  exportTaskQueue,
  FAILURE,
  type Priority,
  type SnapshotStoreFailedDetails,
} from '../../contract.js';
import { type RequestTurn, requestTurnSignal } from '../../contract/request-queue.js';
import { DAY_MS } from '../../contract/shared.js';
import type { Queued } from '../../contract/write-outcome.js';
import type { RangeState } from './range-state.js';

/** The activities of a date range's one writer. */
export function exportActivities(): Pick<ExportActivities, 'prepareExport' | 'readChunk' | 'publishSnapshot'> {
  const shared: ActivityOptions = {
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    heartbeatTimeout: '20 seconds',
    // A run that ended earlier than its activity would leave rows behind its clean-up, and meet the next writer.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // `withRetries` owns the retries.
    retry: { maximumAttempts: 1 },
  };
  // A chunk reads for at most a minute. Its last page and its write take up to two minutes if the store is silent.
  const short: ActivityOptions = { ...shared, startToCloseTimeout: '6 minutes' };
  const { prepareExport } = proxyActivities<ExportActivities>({
    ...short,
    heartbeatTimeout: '5 minutes',
    summary: 'Tidy up after earlier runs',
  });
  const readChunk: ExportActivities['readChunk'] = (input) => {
    const startMs = input.turn ? (input.turn.until - Date.now()) / 2 : undefined;
    const inTime = startMs !== undefined && { scheduleToStartTimeout: startMs };
    return proxyActivities<ExportActivities>({ ...short, ...inTime, summary: 'Read pages' }).readChunk(input);
  };
  const { publishSnapshot } = proxyActivities<ExportActivities>({
    ...shared,
    startToCloseTimeout: '1 hour', // copies all rows once
    summary: 'Publish the snapshot',
  });
  return { prepareExport, readChunk, publishSnapshot };
}

/** The last activity of a run. It is best effort, so it is short; a half-done publication is still read whole. */
export function cleanUpActivities(): Pick<ExportActivities, 'cleanUpExport'> {
  return proxyActivities<ExportActivities>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    scheduleToStartTimeout: '1 minute',
    startToCloseTimeout: '10 minutes',
    heartbeatTimeout: '20 seconds',
    retry: { maximumAttempts: 2 },
    summary: 'Remove what is left',
  });
}

/** Writes the project's report anew. A failure is logged: it fails no run whose snapshots are published. */
export async function writeProjectReport(projectId: string): Promise<void> {
  const { writeReport } = proxyActivities<Pick<ExportActivities, 'writeReport'>>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '15 minutes', // reads up to 90 days of snapshots
    scheduleToCloseTimeout: '1 hour',
    heartbeatTimeout: '1 minute',
    retry: { initialInterval: '5 seconds', maximumAttempts: 5 }, // over a minute for a store that refuses
    summary: 'Write the report',
  });
  try {
    await writeReport({ projectId });
  } catch (error) {
    if (isCancellation(error)) throw error;
    log.warn('The report could not be written', { projectId, error });
  }
}

// The workflow owns the retries of export activities, which have one attempt each: only the workflow has turns, and can
// show why the export waits.

/** For how long a kind of failure is retried, with waits that double up to a maximum. */
interface RetryLimit {
  type: string;
  maxMs: number;
  maxWaitMs: number;
}

const FIRST_WAIT_MS = 1_000;
const STORE: RetryLimit = { type: FAILURE.snapshotStoreFailed, maxMs: 10 * 60_000, maxWaitMs: 60_000 };
/** Bugs, and workers that die or stop. */
const UNFORESEEN: RetryLimit = { type: FAILURE.exportFailed, maxMs: DAY_MS, maxWaitMs: 5 * 60_000 };
/** Failures that the callers handle. */
const NOT_RETRIED: readonly string[] = [FAILURE.exportRejected, 'StaleStaging'];

/**
 * Retries work for ten minutes if the store refuses, and for a day if anything unforeseen fails. `probe` is true
 * if the attempt before failed because of the store or died without a word. `onWait` receives why each wait begins.
 */
export async function withRetries<T>(
  work: (probe: boolean) => Promise<T>,
  onWait: (reason: string) => void,
): Promise<T> {
  const firstFailures = new Map<RetryLimit, number>();
  for (let [waitMs, probe] = [FIRST_WAIT_MS, false]; ; waitMs *= 2) {
    try {
      return await work(probe);
    } catch (error) {
      const limit = limitOf(error);
      if (!limit) throw error;
      const firstFailure = firstFailures.get(limit) ?? Date.now();
      firstFailures.set(limit, firstFailure);
      const reason = reasonOf(error);
      if (Date.now() - firstFailure >= limit.maxMs) {
        if (limit === STORE) throw error;
        const message = `The export failed for 24 hours, though neither upstream nor store refused: ${reason}`;
        throw exportFailure(FAILURE.exportFailed, message, { error: reason });
      }
      probe = limit === STORE || failureOf(error) === null;
      waitMs = Math.min(waitMs, limit.maxWaitMs);
      onWait(reason);
      await sleep(waitMs);
    }
  }
}

/** The failure that ends an export; `details` are those of its type in the contract. */
export function exportFailure(
  type: string,
  message: string,
  details: ExportFailureDetails | ExportRejectedDetails | SnapshotStoreFailedDetails,
): ApplicationFailure {
  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

/** The failure that an activity or a child reported; null if it ended in another way. */
export function failureOf(error: unknown): ApplicationFailure | null {
  const wrapped = error instanceof ActivityFailure || error instanceof ChildWorkflowFailure ? error.cause : error;
  return wrapped instanceof ApplicationFailure ? wrapped : null;
}

function limitOf(error: unknown): RetryLimit | null {
  if (!(error instanceof ActivityFailure) || isCancellation(error)) return null;
  const type = failureOf(error)?.type ?? '';
  if (type === STORE.type) return STORE;
  return NOT_RETRIED.includes(type) ? null : UNFORESEEN;
}

/** A worker that died reports nothing: its heartbeats stop. */
function reasonOf(error: unknown): string {
  const failure = failureOf(error);
  if (failure) return failure.message;
  const { cause, message } = error as Error;
  return `the worker died or fell silent (${cause instanceof Error ? cause.message : message})`;
}

/** The wait after an interrupted chunk, in milliseconds. */
export function interruptionWaitMs(failures: number, { kind, retryAfterMs }: Interruption): number {
  if (kind === 'failed' && retryAfterMs === null) return resendWaitMs(failures);
  return throttledWaitMs(failures, retryAfterMs ?? undefined);
}

// The turns of one export in the queue of all of them. An activity that lacks one asks for it, and the queue answers by
// a signal. An export that waits too long asks again, as a job does.

/** One half of a turn is for the way to a worker, the other for the requests. */
const MIN_TURN_MS = 2_000;

/** The turns of one export. Made before its first await: it registers the signal. */
export class ExportTurns {
  readonly #state: RangeState;
  readonly #priority: Priority;
  readonly #onChange: () => void;

  constructor(state: RangeState, priority: Priority, onChange: () => void) {
    this.#state = state;
    this.#priority = priority;
    this.#onChange = onChange;
    setHandler(requestTurnSignal, (given) => {
      const turn = readTurn(given);
      if (turn?.operation === 'visitors') this.#turns.turn = turn;
    });
  }

  /** Reads a chunk once it may be read: with another turn if no worker was free in time. */
  async withTurn(
    read: (turns: TurnRequest, turn: RequestTurn | null) => Promise<ReadChunkResult>,
  ): Promise<ReadChunkResult> {
    const turns = this.#turns;
    for (let unused: { unused: string } | undefined; ;) {
      const turn = await this.#wait();
      const { isThrottled, asked } = turns;
      const overdue = asked && { askedAt: asked.askedAt };
      const request = { taskQueue: workflowInfo().taskQueue, priority: this.#priority, isThrottled };
      try {
        const result = await read({ ...request, ...overdue, ...unused }, turn);
        unused = undefined;
        turns.isThrottled ||= result.interruption?.kind === 'busy';
        turns.asked = result.asked;
        const hasOnlyAsked = turn === null && result.asked !== null && result.requests === 0;
        if (!hasOnlyAsked) return result;
      } catch (error) {
        if (turn === null || !wasNotStarted(error)) throw error;
        unused = { unused: turn.turn };
      }
    }
  }

  /** Waits for the turn that was asked for; null if none was, or if none came in time: it is asked for again. */
  async #wait(): Promise<RequestTurn | null> {
    const turns = this.#turns;
    if (turns.turn === null) {
      if (turns.asked === null) return null;
      const { place } = turns.asked;
      this.#show(queueReasonOf(place));
      if (!(await condition(() => turns.turn !== null, askAgainMs(place.position, Math.random())))) return null;
    }
    const { turn } = turns;
    Object.assign(turns, { turn: null, asked: null });
    this.#show(null);
    // One whose time is as good as over counts as spent.
    return turn && turn.until - Date.now() >= MIN_TURN_MS ? turn : null;
  }

  #show(waitReason: string | null): void {
    this.#state.waitReason = waitReason;
    this.#onChange();
  }

  get #turns(): RangeState['turns'] {
    return this.#state.turns;
  }
}

function wasNotStarted(error: unknown): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START';
}

function queueReasonOf({ for: what, position }: Queued): string {
  if (position === undefined) return 'its turn in the queue of all exports';
  const why = what === 'turn' ? 'the budget that all exports share' : 'the upstream, which answered 429';
  return `${why} (position ${position} in the queue of all exports)`;
}

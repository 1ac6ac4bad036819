/** What the export of a date range knows and hands on, its turns in the queue of all exports, and how it ended. */
import { ActivityFailure, condition, setHandler, TimeoutFailure, workflowInfo } from '@temporalio/workflow';
import type { ReadChunkResult } from '../../activities/visitor-export/export-activities.js';
import type { AskedTurn, TurnRequest } from '../../activities/visitor-export/export-turns.js';
import type { Priority } from '../../contract.js';
import { readTurn } from '../../agent-job/queue-messages.js';
import { askAgainMs } from '../../agent-job/waits.js';
import { type RequestTurn, requestTurnSignal } from '../../contract/request-queue.js';
import type { Queued } from '../../contract/write-outcome.js';
import { NEW_SCAN, type ScanCheckpoint, type SuspectScan } from '../../visitor-export/scan-checkpoint.js';

/** The plain data of a date range's export, passed on by continue-as-new. Times in milliseconds. */
export interface RangeState {
  /** The first run id of the chain: it names the staging. */
  runId: string;
  /** Counts the scans from 1. */
  scan: number;
  /** Repeats of an inconsistent scan that this run still allows. */
  repeatsLeft: number;
  /** Scans begun anew because their staged rows were lost. */
  staleStagings: number;
  scanStartedAt: number;
  checkpoint: ScanCheckpoint;
  /** The inconsistent scan before this one. */
  before: ScanCheckpoint | null;
  /** The implausible scan that this one confirms or refutes, where this is the second scan of the day. */
  suspect?: SuspectScan | null;
  expectedRows: number | null;
  /** Consecutive chunks that were interrupted before they got a page. */
  failures: number;
  /** When the upstream began to give no page at all; null while it gives pages. */
  failingSince: number | null;
  /** When the upstream began to give pages with a wrong field, and nothing else; null while it does not. */
  wrongSince: number | null;
  /** No request is made before this time. */
  notBefore: number;
  /** Why the export waits; null where it does not. */
  waitReason: string | null;
  /** Its turns in the queue of all exports. */
  turns: TurnState;
}

/** What an export knows of its turns. */
interface TurnState {
  /** Whether this export was answered 429. */
  isThrottled: boolean;
  /** The turn that was asked for and did not come yet. */
  asked: AskedTurn | null;
  /** The turn that came and was not used yet. */
  turn: RequestTurn | null;
}

/** Requests are shared with others: after two repeats the last scan is published as it is. */
const MAX_REPEATS = 2;

/** The state of a date range's export at its beginning; `runId` names its staging. */
export function newRangeState(runId: string): RangeState {
  return {
    runId,
    scan: 1,
    repeatsLeft: MAX_REPEATS,
    staleStagings: 0,
    scanStartedAt: Date.now(),
    checkpoint: NEW_SCAN,
    before: null,
    expectedRows: null,
    failures: 0,
    failingSince: null,
    wrongSince: null,
    notBefore: 0,
    waitReason: null,
    turns: { isThrottled: false, asked: null, turn: null },
  };
}

/** When the export may send its next request, as far as it knows; in the past where it need not wait. */
export function nextRequestTime({ notBefore, turns }: RangeState): number {
  const expectedAt = turns.asked?.place.expectedAt;
  return expectedAt === undefined ? notBefore : Math.max(notBefore, Date.parse(expectedAt));
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

  /** Reads a chunk once it may be read: with another turn where no worker was free in time. */
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

  /** Waits for the turn that was asked for; null where none was, and where none came in time: it is asked for again. */
  async #wait(): Promise<RequestTurn | null> {
    const turns = this.#turns;
    if (turns.turn === null) {
      if (turns.asked === null) return null;
      const { place } = turns.asked;
      this.#show(reasonOf(place));
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

  get #turns(): TurnState {
    return this.#state.turns;
  }
}

function wasNotStarted(error: unknown): boolean {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START';
}

function reasonOf({ for: what, position }: Queued): string {
  if (position === undefined) return 'its turn in the queue of all exports';
  const why = what === 'turn' ? 'the budget that all exports share' : 'the upstream, which answered 429';
  return `${why} (position ${position} in the queue of all exports)`;
}

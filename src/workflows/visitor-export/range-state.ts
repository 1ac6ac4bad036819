/** What the export of a date range knows and hands on, its turns in the queue of all exports, and how it ended. */
import { ActivityFailure, condition, setHandler, TimeoutFailure, workflowInfo } from '@temporalio/workflow';
import type { ExportActivities } from '../../activities/visitor-export/export-activities.js';
import type { AskedTurn, TurnRequest } from '../../activities/visitor-export/export-turns.js';
import type { Priority, SnapshotReceipt } from '../../contract.js';
import { readTurn } from '../../agent-job/queue-messages.js';
import { askAgainMs } from '../../agent-job/retry-waits.js';
import { type QueuePlace, type RequestTurn, requestTurnSignal } from '../../contract/request-queue.js';
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
  requestsPerHour: number | null;
  /** Why the export waits; null where it does not. */
  waitReason: string | null;
  /** Its turns in the queue of all exports. */
  turns: TurnState;
}

/** What an export knows of its turns. */
interface TurnState {
  /** Whether this export was answered 429. */
  isThrottled: boolean;
  /** Whether a chunk needs a turn: a budget is set, or the upstream answered 429. */
  isNeeded: boolean;
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
    requestsPerHour: null,
    waitReason: null,
    turns: { isThrottled: false, isNeeded: false, asked: null, turn: null },
  };
}

/** When the export may send its next request, as far as it knows; in the past where it need not wait. */
export function nextRequestTime({ notBefore, turns }: RangeState): number {
  const expectedAt = turns.asked?.place?.expectedAt;
  return expectedAt === undefined ? notBefore : Math.max(notBefore, Date.parse(expectedAt));
}

/** How the export of a date range ended. */
export interface RangeResult {
  receipt: SnapshotReceipt;
  /** Whether the day was scanned a second time, an hour later. */
  isSecondScan: boolean;
}

// The turns of one export in the queue of all of them: whether a chunk needs one, and the wait for it. An activity
// asks, and the queue answers by a signal. An export that hears nothing asks again, as a job does; where no queue
// answers and no budget is set, it goes on without.

/** What an activity of an export tells of its turns. */
interface TurnResult {
  requestsPerHour: number | null;
  asked: AskedTurn | null;
  interruption?: { kind: 'busy' | 'failed' } | null;
}

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

  /** Whether the next chunk needs a turn. */
  get isNeeded(): boolean {
    return this.#turns.isNeeded;
  }

  /** How activities ask for a turn of this export. */
  get request(): TurnRequest {
    return { taskQueue: workflowInfo().taskQueue, priority: this.#priority };
  }

  /** Learns from the result of an activity. */
  learn({ requestsPerHour, asked, interruption }: TurnResult): void {
    const turns = this.#turns;
    turns.isThrottled ||= interruption?.kind === 'busy';
    turns.isNeeded = turns.isThrottled || requestsPerHour !== null;
    turns.asked = asked;
  }

  /** Reads a chunk with a turn; with another one where no worker was free in time. */
  async withTurn<T>(askTurn: ExportActivities['askTurn'], work: (turn: RequestTurn | null) => Promise<T>): Promise<T> {
    for (let unused: RequestTurn | null = null; ;) {
      const turn = await this.#take(askTurn, unused);
      try {
        return await work(turn);
      } catch (error) {
        if (turn === null || !wasNotStarted(error)) throw error;
        unused = turn;
      }
    }
  }

  /** Waits for the turn of the next chunk; null where no queue has it wait, and none gives it a turn. */
  async #take(askTurn: ExportActivities['askTurn'], unused: RequestTurn | null): Promise<RequestTurn | null> {
    const turns = this.#turns;
    let request: TurnRequest = { ...this.request, ...(unused && { unused: unused.turn }) };
    for (;;) {
      const turn = this.#receive();
      if (turn) return turn;
      this.#show(turns.asked?.place ?? null);
      const asked = (turns.asked ??= await askTurn(request));
      this.#show(asked.place);
      if (await condition(() => turns.turn !== null, askAgainMs(asked.place?.position, Math.random()))) continue;
      turns.asked = null;
      // No queue answered, or it did not take the request, or its turn was lost. A budget that is set is kept.
      if (asked.place === null && this.#state.requestsPerHour === null) return this.#end();
      request = { ...this.request, askedAt: asked.askedAt };
    }
  }

  /** The turn that came; one whose time is as good as over counts as spent. */
  #receive(): RequestTurn | null {
    const turns = this.#turns;
    const { turn } = turns;
    if (turn === null) return null;
    this.#end();
    return turn.until - Date.now() >= MIN_TURN_MS ? turn : null;
  }

  #end(): null {
    const turns = this.#turns;
    turns.turn = null;
    turns.asked = null;
    this.#state.waitReason = null;
    this.#onChange();
    return null;
  }

  #show(place: QueuePlace | null): void {
    this.#state.waitReason = reasonOf(place);
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

function reasonOf(place: QueuePlace | null): string {
  if (place === null) return 'its turn in the queue of all exports';
  const what = place.for === 'turn' ? 'the budget that all exports share' : 'the upstream, which answered 429';
  return `${what} (position ${place.position} in the queue of all exports)`;
}

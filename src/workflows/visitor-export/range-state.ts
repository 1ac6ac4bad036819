import type { AskedTurn } from '../../activities/visitor-export/export-turns.js';
import type { RequestTurn } from '../../contract/request-queue.js';
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
  /** The pace allows no request before this time. */
  notBefore: number;
  requestsPerHour: number | null;
  /** Why the export waits; null where it does not. */
  waitReason: string | null;
  /** Its turns in the queue of all exports. */
  turns: TurnState;
}

/** What an export knows of its turns. */
export interface TurnState {
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

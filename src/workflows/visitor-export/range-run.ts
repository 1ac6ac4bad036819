import { NEW_SCAN, type Doubt, type ScanCheckpoint } from '../../visitor-export/scan-checkpoint.js';

/** The plain data of a date range's export: continue-as-new hands it on as it is. Times in milliseconds. */
export interface RangeState {
  /** The first run id of the chain: it names the staging. */
  run: string;
  scan: number;
  /** Scans that the night still allows after this one. */
  repeatsLeft: number;
  /** Scans begun anew because their staging was lost. */
  staleStagings: number;
  scanStartedAt: number;
  checkpoint: ScanCheckpoint;
  /** The scan before this one. */
  before: ScanCheckpoint | null;
  /** The scan whose rows or totals can't be believed, where this one is the second look at the day. */
  doubt?: Doubt | null;
  expectedRows: number | null;
  /** Chunks in a row that ended at an obstacle without a page. */
  failures: number;
  /** When the upstream began to give no page at all; null while it gives pages. */
  failingSince: number | null;
  /** No request before this time: the pace says so. */
  notBefore: number;
  requestsPerHour: number | null;
  /** Why there is a wait; null where there is none. */
  trouble: string | null;
}

/** The upstream's requests are shared: two repeats a night, then what is there is published as it is. */
const REPEATS = 2;

/** A date range's export at its beginning; `run` names its staging. */
export function newRangeState(run: string): RangeState {
  return {
    run,
    scan: 1,
    repeatsLeft: REPEATS,
    staleStagings: 0,
    scanStartedAt: Date.now(),
    checkpoint: NEW_SCAN,
    before: null,
    expectedRows: null,
    failures: 0,
    failingSince: null,
    notBefore: 0,
    requestsPerHour: null,
    trouble: null,
  };
}

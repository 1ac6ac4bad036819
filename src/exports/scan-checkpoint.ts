/** What a scan remembers between two chunks, and what it saw change. Pure and safe in workflow code. */
import type { Inconsistency, InconsistencyKind, SnapshotReceipt, VisitorTotals } from '../contract.js';

/** Rows of a full page: the upstream's maximum for `limit`. */
export const PAGE_ROWS = 250;

/** The second scan begins this time after a suspect one: sooner, it would see the same disturbance. */
export const SECOND_SCAN_DELAY_MS = 3_600_000;

/** Raised with every change of a checkpoint, or of what is staged beside it, that another release would misread. */
export const CHECKPOINT_VERSION = 1;

/** A scan between two chunks: all that it remembers but its rows and their paths, in a few hundred bytes. */
export interface ScanCheckpoint {
  version: number;
  /** `paging` until a page is the last, then `checking` until the first page was read again, then `ended`. */
  stage: 'paging' | 'checking' | 'ended';
  /** Whether the last page was reached. */
  complete: boolean;
  /** The offset of the next page: the last row read. */
  offset: number;
  pages: number;
  rows: number;
  /** Chunks with rows in staging, and the chain of their SHA-256. */
  chunks: number;
  staged: string;
  /** Random key of the path hashes, so that no visitor can choose paths that collide; constant once rows are staged. */
  pathKey: string;
  totals: VisitorTotals;
  /** The sum over the staged rows and the largest of them, for each count. */
  rowSums: VisitorTotals;
  rowMaxima: VisitorTotals;
  /** The last row of the page before; null if it had none. */
  lastRow: string | null;
  /** The end of the page before, if it was shorter than asked for and left rows out; null after a full page. */
  gapEnd: number | null;
  /** Whether the upstream leaves rows out of its pages; null while no page has shown that, or a limit of its own. */
  leavesOut: boolean | null;
  /** The page before had no new row, and is asked for once more. */
  isConfirming: boolean;
  /** Pages in a row that brought nothing new. */
  barren: number;
  firstPage: string | null;
  content: string;
  order: number;
  rounded: boolean;
  /** Rows that were left out because they are not as the interface says; null if none was. */
  malformed: Inconsistency | null;
  inconsistency: Inconsistency | null;
}

/** A scan of a finished day that is implausible until a second scan agrees. */
export interface SuspectScan {
  rows: number;
  /** When the scan began; ISO 8601. */
  exportedAt: string;
}

/** A new object each time: sums and maxima are changed in place. */
const none = (): VisitorTotals => ({ human: 0, ai: 0, total: 0 });

/** The checkpoint of a scan before its first page. */
export const NEW_SCAN: Readonly<ScanCheckpoint> = {
  version: CHECKPOINT_VERSION,
  stage: 'paging',
  complete: false,
  offset: 0,
  pages: 0,
  rows: 0,
  chunks: 0,
  staged: '',
  pathKey: '',
  totals: none(),
  rowSums: none(),
  rowMaxima: none(),
  lastRow: null,
  gapEnd: null,
  leavesOut: null,
  isConfirming: false,
  barren: 0,
  firstPage: null,
  content: '',
  order: 0,
  rounded: false,
  malformed: null,
  inconsistency: null,
};

/** Whether two totals are the same counts. */
export function isSameTotals(a: VisitorTotals, b: VisitorTotals): boolean {
  return a.human === b.human && a.ai === b.ai && a.total === b.total;
}

// A new kind of inconsistency has a name (`InconsistencyKind` in contract/visitor-export.ts), words (below), a finder
// (snapshots/scan.ts, snapshots/publish.ts or `inconsistencyOf`), perhaps a second scan (SUSPICIONS below), a row in
// docs/exports.md, and a test of its finder.

const DESCRIPTIONS: Record<InconsistencyKind, string> = {
  overlap: 'a page did not begin with the last row of the page before',
  totals: 'the totals changed while the pages were read',
  repeatedPath: 'a path came twice',
  firstPage: 'the first page was another when it was read again',
  noProgress: 'pages brought nothing new and claimed that more follow',
  order: 'the rows changed places',
  impossible: 'rows and totals contradict each other',
  shrunk: 'most of the rows were gone, and no later scan agreed',
  malformedRows: 'rows that are not as the interface says were left out',
};

/** An inconsistency in words, for a person. */
export function inconsistencyText({ kind, offset, count, field, path }: Inconsistency): string {
  const which = count === undefined ? '' : `, ${count} in all: ${field}${path === undefined ? '' : ` of ${path}`}`;
  // A newer release may know more kinds.
  return `${DESCRIPTIONS[kind] ?? kind} (${kind}, row ${offset}${which})`;
}

/** What a scan saw change; `order` if the scan before it holds the same rows and totals in another order. */
export function inconsistencyOf(scan: ScanCheckpoint, before: ScanCheckpoint | null): Inconsistency | null {
  if (!scan.inconsistency || !before?.complete || !scan.complete) return scan.inconsistency;
  const isSameContent =
    scan.rows === before.rows && scan.content === before.content && isSameTotals(scan.totals, before.totals);
  return isSameContent && scan.order !== before.order ? { ...scan.inconsistency, kind: 'order' } : scan.inconsistency;
}

/** Inconsistencies of a finished day that a second scan may refute. */
const SUSPICIONS: Partial<Record<InconsistencyKind, string>> = {
  impossible: 'rows and totals contradict each other; the day is read once more',
  shrunk: 'most of the rows are gone; the day is read once more',
};

/** Why a day is scanned a second time, in words; undefined if it is not. */
export function suspicionOf({ drift }: Pick<SnapshotReceipt, 'drift'>): string | undefined {
  return drift && SUSPICIONS[drift.kind];
}

/** Days of one scheduled run, or of one backfill, that stay in doubt: each made the run wait for an hour. */
const MAX_IN_DOUBT = 3;

/** Whether a further day may have a second scan, after these were exported. */
export function maySecondScan(exported: readonly SnapshotReceipt[]): boolean {
  return exported.filter((receipt) => suspicionOf(receipt) !== undefined).length < MAX_IN_DOUBT;
}

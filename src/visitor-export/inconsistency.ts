/**
 * The kinds of inconsistency in words. A new kind has a name (`InconsistencyKind` in contract/visitor-export.ts), words
 * (below), a finder (snapshots/scan.ts, snapshots/publish.ts or `inconsistencyOf`), perhaps a second scan
 * (SUSPICIONS below), a row in docs/exports.md, and a test of its finder. Pure.
 */
import type { Inconsistency, InconsistencyKind, SnapshotReceipt } from '../contract.js';
import { isSameTotals, type ScanCheckpoint } from './scan-checkpoint.js';

const DESCRIPTIONS: Record<InconsistencyKind, string> = {
  overlap: 'a page did not begin with the last row of the page before',
  totals: 'the totals changed while the pages were read',
  repeatedPath: 'a path came twice',
  firstPage: 'the first page was another when it was read again',
  noProgress: 'a page brought nothing new and claimed that more follow',
  order: 'the rows changed places',
  impossible: 'rows and totals contradict each other',
  shrunk: 'most of the rows were gone, and no later scan agreed',
};

/** An inconsistency in words, for a person. */
export function inconsistencyText({ kind, offset }: Inconsistency): string {
  // A newer release may know more kinds.
  return `${DESCRIPTIONS[kind] ?? kind} (${kind}, row ${offset})`;
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

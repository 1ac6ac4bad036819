/**
 * The kinds of inconsistency in words, and which of them two scans make. A new kind has six places:
 *
 * - its name: `InconsistencyKind` in contract/visitor-export.ts;
 * - its words: DESCRIPTIONS below;
 * - where it is found: snapshots/scan.ts (within one scan), snapshots/plausibility.ts (`impossible`, `shrunk`: a whole
 *   scan beside its totals, and what was there before) or `inconsistencyOf` below (a scan beside the one before);
 * - whether a second scan may refute it: SUSPICIONS in workflows/visitor-export/range-export.ts; docs/exports.md and
 *   test/export-simulation name those too;
 * - the docs: `drift.kind` in docs/exports.md;
 * - a test of the file that finds it.
 *
 * Whether a day is believed is decided in snapshots/publish.ts.
 * Pure and safe in workflow code.
 */
import type { Inconsistency, InconsistencyKind } from '../contract.js';
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

/** What a scan saw change; `order` where the scan before it holds the same rows and totals in another order. */
export function inconsistencyOf(scan: ScanCheckpoint, before: ScanCheckpoint | null): Inconsistency | null {
  if (!scan.inconsistency || !before?.complete || !scan.complete) return scan.inconsistency;
  const isSameContent =
    scan.rows === before.rows && scan.content === before.content && isSameTotals(scan.totals, before.totals);
  return isSameContent && scan.order !== before.order ? { ...scan.inconsistency, kind: 'order' } : scan.inconsistency;
}

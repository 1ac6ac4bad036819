/** What a scan over the pages of the visitor export remembers between two chunks. Pure and safe in workflow code. */
import type { Inconsistency, VisitorTotals } from '../contract.js';

/** A scan between two chunks: all that it remembers but the rows and the set of their paths, in a few hundred bytes. */
export interface ScanCheckpoint {
  /** `paging` until a page says that it is the last, then `checking` until the first page was read again, then `ended`. */
  stage: 'paging' | 'checking' | 'ended';
  /** Whether the last page was reached. */
  complete: boolean;
  /** Where the next page begins: at the last row read. */
  offset: number;
  pages: number;
  rows: number;
  /** Chunks with rows in staging, and the chain of their SHA-256. */
  chunks: number;
  staged: string;
  /** Random, so that nobody can choose paths whose hashes meet; the same from the first staged row to the last. */
  pathKey: string;
  totals: VisitorTotals;
  /** Of each count, the sum over the rows kept and the largest of them. */
  rowSums: VisitorTotals;
  rowMaxima: VisitorTotals;
  lastRow: string | null;
  firstPage: string | null;
  content: string;
  order: number;
  rounded: boolean;
  inconsistency: Inconsistency | null;
}

/** A scan over a finished day that can't be believed, until a second look agrees. */
export interface Doubt {
  rows: number;
  /** When the scan began; ISO 8601. */
  exportedAt: string;
}

/** How much later a second look must begin to be more than the same moment's answer. */
export const SECOND_LOOK_MS = 3_600_000;

export const NEW_SCAN: Readonly<ScanCheckpoint> = {
  stage: 'paging',
  complete: false,
  offset: 0,
  pages: 0,
  rows: 0,
  chunks: 0,
  staged: '',
  pathKey: '',
  totals: { human: 0, ai: 0, total: 0 },
  rowSums: { human: 0, ai: 0, total: 0 },
  rowMaxima: { human: 0, ai: 0, total: 0 },
  lastRow: null,
  firstPage: null,
  content: '',
  order: 0,
  rounded: false,
  inconsistency: null,
};

/** What a scan saw move; `order` where it holds the same rows and totals as the one before it, in another order. */
export function inconsistencyOf(scan: ScanCheckpoint, before: ScanCheckpoint | null): Inconsistency | null {
  if (!scan.inconsistency || !before?.complete || !scan.complete) return scan.inconsistency;
  const isSameContent =
    scan.rows === before.rows && scan.content === before.content && isSameTotals(scan.totals, before.totals);
  return isSameContent && scan.order !== before.order ? { ...scan.inconsistency, kind: 'order' } : scan.inconsistency;
}

/** Whether two totals are the same counts. */
export function isSameTotals(a: VisitorTotals, b: VisitorTotals): boolean {
  return a.human === b.human && a.ai === b.ai && a.total === b.total;
}

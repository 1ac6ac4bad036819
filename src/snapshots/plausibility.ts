/** Whether a consistent scan is plausible: its rows compared with its totals, and with what was there before. */
import type { Inconsistency, SnapshotManifest, VisitorTotals } from '../contract.js';
import { COUNTS } from './content-digest.js';
import { SECOND_SCAN_DELAY_MS, type SuspectScan } from '../visitor-export/scan-checkpoint.js';

/** What a candidate is compared with. */
export interface Surroundings {
  /** The date range's published snapshot. */
  current: SnapshotManifest | null;
  /** Snapshots of the project's nearest date ranges of the same length. */
  neighbours: readonly SnapshotManifest[];
  /** The suspect scan that the candidate is the second scan of. */
  suspect: SuspectScan | null;
}

/** Counts are approximate: differences of up to a tenth and two visitors are ignored. */
const TOLERANCE = { part: 0.1, visitors: 2 };
/** Fewest days from which anything usual is derived. */
const MIN_DAYS = 3;
/** Part of those days that must agree: one wrong day must not keep all others suspect. */
const MIN_AGREEING_PART = 3 / 4;
/** Ratios of one way of counting differ by at most this factor. */
const MAX_RATIO_FACTOR = 1.25;
/** A site with fewer pages a day varies by itself. */
const MIN_USUAL_ROWS = 20;
/** Two scans of a day agree where their rows differ by at most this part. */
const MAX_DIFFERENCE_PART = 0.1;

/** The inconsistency of rows that contradict totals, or of a day that lost most of its rows; null if there is none. */
export function implausibilityOf(candidate: SnapshotManifest, surroundings: Surroundings): Inconsistency | null {
  if (isImpossible(candidate, surroundings.neighbours)) return { kind: 'impossible', offset: candidate.rows };
  return hasShrunk(candidate, surroundings) ? { kind: 'shrunk', offset: candidate.rows } : null;
}

/** Whether most of the rows are gone. */
export function hasLostMost(rows: number, before: number): boolean {
  return rows < before / 2;
}

function isImpossible(candidate: SnapshotManifest, neighbours: readonly SnapshotManifest[]): boolean {
  if (candidate.rows === 0) return COUNTS.some((count) => candidate.totals[count] > 0);
  return contradictions(candidate).some((ratio) => !isWayOfCounting(ratio, candidate, neighbours));
}

type Ratio = (manifest: SnapshotManifest) => number | null;

/** The impossible ratios: a visitor of a site visits at least one page, and a visitor of a page visits the site. */
function contradictions(candidate: SnapshotManifest): Ratio[] {
  const { totals, rowSums, rowMaxima } = candidate;
  if (!rowSums || !rowMaxima) return [];
  return COUNTS.flatMap((count) => [
    ...(isLess(rowSums[count], totals[count]) ? [ratioOf('rowSums', count)] : []),
    ...(isLess(totals[count], rowMaxima[count]) ? [ratioOf('rowMaxima', count)] : []),
  ]);
}

function isLess(count: number, other: number): boolean {
  return count < other * (1 - TOLERANCE.part) - TOLERANCE.visitors;
}

function ratioOf(field: 'rowSums' | 'rowMaxima', count: keyof VisitorTotals): Ratio {
  // The added 1 makes days without visitors comparable.
  return (manifest) => (manifest[field] ? (manifest[field][count] + 1) / (manifest.totals[count] + 1) : null);
}

/** Whether the days before share the ratio, or those after: then it is the upstream's way of counting, and no error. */
function isWayOfCounting(ratio: Ratio, candidate: SnapshotManifest, neighbours: readonly SnapshotManifest[]): boolean {
  const own = ratio(candidate) ?? 0;
  const usable = neighbours.filter(
    ({ consistent, drift, provisional }) => !provisional && (consistent || drift?.kind === 'impossible'),
  );
  const sides = [
    usable,
    usable.filter(({ dateFrom }) => dateFrom < candidate.dateFrom),
    usable.filter(({ dateFrom }) => dateFrom > candidate.dateFrom),
  ];
  return sides.some((side) => {
    const others = side.flatMap((neighbour) => ratio(neighbour) ?? []);
    const near = others.filter((other) => Math.max(own, other) <= MAX_RATIO_FACTOR * Math.min(own, other)).length;
    return near >= MIN_DAYS && near >= others.length * MIN_AGREEING_PART;
  });
}

function hasShrunk(candidate: SnapshotManifest, { current, neighbours, suspect }: Surroundings): boolean {
  if (candidate.provisional) return false;
  const isSettled = current?.consistent === true && !current.provisional;
  const usual = isSettled ? 0 : usualRows(neighbours);
  if (!hasLostMost(candidate.rows, Math.max(current?.rows ?? 0, usual))) return false;
  return !suspect || !agrees(candidate, suspect);
}

/** What three of four days have at least (weekends are quiet on many sites); 0 where too few days are known. */
function usualRows(neighbours: readonly SnapshotManifest[]): number {
  const rows = neighbours.filter((one) => one.consistent && !one.provisional).map((one) => one.rows);
  if (rows.length < MIN_DAYS) return 0;
  const usual = rows.toSorted((a, b) => a - b)[Math.floor(rows.length / 4)] as number;
  return usual < MIN_USUAL_ROWS ? 0 : usual;
}

function agrees({ rows, exportedAt }: SnapshotManifest, suspect: SuspectScan): boolean {
  if (Date.parse(exportedAt) - Date.parse(suspect.exportedAt) < SECOND_SCAN_DELAY_MS) return false;
  return Math.abs(rows - suspect.rows) <= MAX_DIFFERENCE_PART * Math.max(rows, suspect.rows);
}

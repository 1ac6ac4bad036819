/** Whether a scan can be believed for what it says, beyond what it saw move: rows held against totals, and against what was there before. */
import type { Inconsistency, SnapshotManifest, VisitorTotals } from '../contract.js';
import { SECOND_LOOK_MS, type Doubt } from '../visitor-export/scan-checkpoint.js';

/** What a snapshot is held against. */
export interface Surroundings {
  /** The date range's snapshot so far. */
  kept: SnapshotManifest | null;
  /** Snapshots of the project's nearest date ranges of the same length. */
  neighbours: readonly SnapshotManifest[];
  doubt: Doubt | null;
}

/** Counts are approximate: a tenth and two visitors explain nothing. */
const TOLERANCE = { part: 0.1, visitors: 2 };
/** Days that must agree before what they share is called usual. */
const FEWEST_DAYS = 3;
/** And so many of the days that tell. */
const MOST_DAYS_SHARE = 3 / 4;
/** Ratios of one way of counting differ by at most this factor. */
const SAME_RATIO = 1.25;
/** A site with fewer pages a day varies by itself. */
const FEWEST_USUAL_ROWS = 20;
/** Two scans over a day agree on its rows up to this part. */
const AGREEMENT = 0.1;
const COUNTS = ['human', 'ai', 'total'] as const;

/** The drift of rows and totals that contradict each other, or of a day that lost most of its rows; null where there is none. */
export function doubtsOf(found: SnapshotManifest, surroundings: Surroundings): Inconsistency | null {
  if (isImpossible(found, surroundings.neighbours)) return { kind: 'impossible', offset: found.rows };
  return hasShrunk(found, surroundings) ? { kind: 'shrunk', offset: found.rows } : null;
}

/** Whether most of the rows are gone. */
export function hasLostMost(rows: number, before: number): boolean {
  return rows < before / 2;
}

function isImpossible(found: SnapshotManifest, neighbours: readonly SnapshotManifest[]): boolean {
  if (found.rows === 0) return COUNTS.some((count) => found.totals[count] > 0);
  return contradictions(found).some((ratio) => !isWayOfCounting(ratio, found, neighbours));
}

type Ratio = (manifest: SnapshotManifest) => number | null;

/** The ratios that can't be. Whoever visits a site visits at least one page, and whoever visits a page visits the site. */
function contradictions(found: SnapshotManifest): Ratio[] {
  const { totals, rowSums, rowMaxima } = found;
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
  // Two days without a visitor are alike.
  return (manifest) => (manifest[field] ? (manifest[field][count] + 1) / (manifest.totals[count] + 1) : null);
}

/** A ratio that the days before share, or those after, tells how the upstream counts then, not what went wrong on one of them. */
function isWayOfCounting(ratio: Ratio, found: SnapshotManifest, neighbours: readonly SnapshotManifest[]): boolean {
  const own = ratio(found) ?? 0;
  const told = neighbours.filter(
    ({ consistent, drift, provisional }) => !provisional && (consistent || drift?.kind === 'impossible'),
  );
  const sides = [
    told,
    told.filter(({ dateFrom }) => dateFrom < found.dateFrom),
    told.filter(({ dateFrom }) => dateFrom > found.dateFrom),
  ];
  return sides.some((side) =>
    areShared(
      own,
      side.flatMap((neighbour) => ratio(neighbour) ?? []),
    ),
  );
}

/** By three of four days: one day that was really wrong must not keep all others in doubt. */
function areShared(own: number, others: readonly number[]): boolean {
  const near = others.filter((other) => isNear(own, other)).length;
  return near >= FEWEST_DAYS && near >= others.length * MOST_DAYS_SHARE;
}

function isNear(a: number, b: number): boolean {
  return Math.max(a, b) <= SAME_RATIO * Math.min(a, b);
}

function hasShrunk(found: SnapshotManifest, { kept, neighbours, doubt }: Surroundings): boolean {
  if (found.provisional) return false;
  const isSettled = kept?.consistent === true && !kept.provisional;
  const usual = isSettled ? 0 : usualRows(neighbours);
  if (!hasLostMost(found.rows, Math.max(kept?.rows ?? 0, usual))) return false;
  return !doubt || !agrees(found, doubt);
}

/** What three of four days have at least: weekends are quiet on many sites. 0 where too few days tell. */
function usualRows(neighbours: readonly SnapshotManifest[]): number {
  const rows = neighbours.filter((one) => one.consistent && !one.provisional).map((one) => one.rows);
  if (rows.length < FEWEST_DAYS) return 0;
  const usual = rows.toSorted((a, b) => a - b)[Math.floor(rows.length / 4)] as number;
  return usual < FEWEST_USUAL_ROWS ? 0 : usual;
}

function agrees({ rows, exportedAt }: SnapshotManifest, doubt: Doubt): boolean {
  if (Date.parse(exportedAt) - Date.parse(doubt.exportedAt) < SECOND_LOOK_MS) return false;
  return Math.abs(rows - doubt.rows) <= AGREEMENT * Math.max(rows, doubt.rows);
}

import type { Inconsistency, VisitorExportRange, VisitorTotals } from '../../src/contract.js';
import { NEW_SCAN, type SuspectScan, type ScanCheckpoint } from '../../src/exports/scan-checkpoint.js';
import { Scan } from '../../src/exports/snapshots/scan.js';
import { stageChunk, stagedPaths } from '../../src/exports/snapshots/staging.js';
import { publishScan } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import type { VisitorPage } from '../../src/upstream/upstream.js';

export interface Row {
  path: string;
  human: number;
  ai: number;
  total: number;
}

export const RANGE: VisitorExportRange = { projectId: 'p1', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
const FINAL = '2026-01-03T00:00:00.000Z';

export function rows(count: number, from = 0): Row[] {
  return Array.from({ length: count }, (_, i) => row(from + i));
}

export function row(i: number): Row {
  return { path: `/page/${i}`, human: 10 + (i % 2), ai: 4 + (i % 2), total: 13 + (i % 2) };
}

function totalsOf(all: readonly Row[]): VisitorTotals {
  const largest = (count: 'human' | 'ai' | 'total') => all.reduce((most, one) => Math.max(most, one[count]), 0);
  if (all.length === 0) return { human: 0, ai: 0, total: 0 };
  const { length } = all;
  return {
    human: Math.max(9 + length, largest('human')),
    ai: Math.max(5, largest('ai')),
    total: Math.max(13 + length, largest('total')),
  };
}

/** One answer of an upstream that holds these rows. */
export function pageAt(all: readonly Row[], offset: number, limit: number): VisitorPage {
  const visitors = all.slice(offset, offset + limit);
  return { totals: totalsOf(all), visitors, hasMore: offset + limit < all.length };
}

/** Reads all pages into staging, in chunks; `rowsAt` gives the rows as the upstream holds them at each request. */
export async function readScan(
  store: SnapshotStore,
  rowsAt: (request: number) => readonly Row[],
  { limit = 10, chunkPages = 3, runId = 'run-1', scan: number = 1, range = RANGE } = {},
): Promise<ScanCheckpoint> {
  const staged = { range, runId, scan: number };
  let checkpoint: ScanCheckpoint = NEW_SCAN;
  for (let request = 0; checkpoint.stage !== 'ended';) {
    const scan = new Scan(checkpoint, await stagedPaths(store, staged, checkpoint), limit);
    const kept: Row[] = [];
    for (let i = 0; i < chunkPages && scan.state.stage !== 'ended'; i++) {
      kept.push(...scan.take(pageAt(rowsAt(request++), scan.offset, limit)));
    }
    checkpoint = { ...scan.checkpoint(), ...(await stageChunk(store, staged, checkpoint, kept)) };
  }
  return checkpoint;
}

/** What an export of one moment may say beside its rows. */
export interface Telling {
  exportedAt?: string;
  runId?: string;
  limit?: number;
  range?: VisitorExportRange;
  totals?: VisitorTotals;
  malformed?: Inconsistency;
  suspect?: SuspectScan;
}

/** Reads and publishes, as one run of the export would. */
export async function exportRows(
  store: SnapshotStore,
  rowsAt: (request: number) => readonly Row[],
  { exportedAt = FINAL, runId = 'run-1', limit = 10, range = RANGE, totals, malformed, suspect }: Telling = {},
) {
  const read = await readScan(store, rowsAt, { runId, limit, range });
  const checkpoint = { ...read, ...(totals && { totals }), ...(malformed && { malformed }) };
  return publishScan(store, {
    range,
    runId,
    scan: 1,
    checkpoint,
    inconsistency: read.inconsistency,
    exportedAt,
    suspect: suspect ?? null,
  });
}

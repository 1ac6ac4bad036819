import type { Inconsistency, SnapshotManifest, VisitorTotals } from '../../src/contract.js';
import { plusDays } from '../../src/exports/date-range.js';
import { ContentDigest, sha256Hex, type VisitorRow } from '../../src/exports/snapshots/content-digest.js';
import { manifestKey, parquetName, snapshotFolder } from '../../src/exports/snapshots/layout.js';
import { encodeManifest, FORMAT_VERSION, snapshotId } from '../../src/exports/snapshots/manifest.js';
import { writeParquet } from '../../src/exports/snapshots/parquet.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';

export interface MadeDay {
  date: string;
  rows: VisitorRow[];
  totals?: VisitorTotals;
  drift?: Inconsistency;
  provisional?: boolean;
  /** Exclusive end; default: the day after. */
  dateTo?: string;
}

/** Puts a snapshot into the store, as an export would. */
export async function putDay(store: SnapshotStore, projectId: string, day: MadeDay): Promise<SnapshotManifest> {
  const { date, rows, drift, provisional = false } = day;
  const range = { projectId, dateFrom: date, dateTo: day.dateTo ?? plusDays(date, 1) };
  const digest = new ContentDigest();
  for (const row of rows) digest.add(row);
  const totals = day.totals ?? { human: sum(rows, 'human'), ai: sum(rows, 'ai'), total: sum(rows, 'total') };
  const bytes = rows.length > 0 ? writeParquet(rows) : new Uint8Array();
  const exportedAt = `${range.dateTo}T${provisional ? '04' : '12'}:30:00.000Z`;
  const sha256 = sha256Hex(bytes);
  const name = parquetName(sha256, exportedAt);
  const files = [{ name, rows: rows.length, bytes: bytes.length, sha256 }];
  const manifest: SnapshotManifest = {
    formatVersion: FORMAT_VERSION,
    snapshotId: snapshotId(range, rows.length, digest.content, totals),
    ...range,
    rows: rows.length,
    totals,
    consistent: drift === undefined,
    provisional,
    ...(drift && { drift }),
    exportedAt,
    files: rows.length === 0 ? [] : files,
  };
  if (rows.length > 0) await store.put(`${snapshotFolder(range)}/${name}`, bytes);
  await store.put(manifestKey(range), encodeManifest(manifest));
  return manifest;
}

function sum(rows: readonly VisitorRow[], field: 'human' | 'ai' | 'total'): number {
  return rows.reduce((all, row) => all + row[field], 0);
}

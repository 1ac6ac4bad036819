import type { SnapshotManifest, SnapshotReceipt, VisitorExportRange, VisitorTotals } from '../contract.js';
import { sha256Hex } from './content-digest.js';
import { manifestKey, snapshotFolder } from './layout.js';
import type { SnapshotStore } from './snapshot-store.js';

const FINAL_AT_UTC = 'T12:00:00.000Z'; // the last time zone's day ends at 12:00 UTC

/** The manifest in the bytes; null where they hold none. */
export function parseManifest(bytes: Uint8Array): SnapshotManifest | null {
  try {
    const value = JSON.parse(Buffer.from(bytes).toString('utf8')) as Partial<SnapshotManifest> | null;
    return isManifest(value) ? value : null;
  } catch {
    return null;
  }
}

function isManifest(value: Partial<SnapshotManifest> | null): value is SnapshotManifest {
  return (
    typeof value?.snapshotId === 'string' &&
    typeof value.rows === 'number' &&
    typeof value.totals?.total === 'number' &&
    typeof value.consistent === 'boolean' &&
    typeof value.provisional === 'boolean' &&
    typeof value.exportedAt === 'string' &&
    Array.isArray(value.files)
  );
}

/** The manifest of a window's snapshot; null where there is no snapshot. */
export async function readManifest(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const bytes = await store.read(manifestKey(range));
  return bytes && parseManifest(bytes);
}

export function encodeManifest(manifest: SnapshotManifest): Buffer {
  return Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
}

/** Names a window's content: rows (by their digest) and totals. */
export function snapshotId(range: VisitorExportRange, rows: number, content: string, totals: VisitorTotals): string {
  const { projectId, dateFrom, dateTo } = range;
  const { human, ai, total } = totals;
  return sha256Hex(JSON.stringify([projectId, dateFrom, dateTo, rows, content, human, ai, total]));
}

/** Whether a window that was read at `exportedAt` may not have been over everywhere. */
export function isProvisional(exportedAt: string, dateTo: string): boolean {
  return Date.parse(exportedAt) < Date.parse(dateTo + FINAL_AT_UTC);
}

/** What the caller is told of a snapshot. */
export function receiptOf(store: SnapshotStore, manifest: SnapshotManifest, unchanged: boolean): SnapshotReceipt {
  const { snapshotId: id, projectId, dateFrom, dateTo, rows, totals, consistent, provisional, drift, files } = manifest;
  const location = store.urlOf(snapshotFolder({ projectId, dateFrom, dateTo }));
  return {
    snapshotId: id,
    projectId,
    dateFrom,
    dateTo,
    location,
    rows,
    totals,
    files: files.length,
    consistent,
    provisional,
    unchanged,
    ...(drift && { drift }),
  };
}

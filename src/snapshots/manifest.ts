/** `manifest.json` of a snapshot: parsing and checks, its checksum, `snapshotId`, and the receipt made from it. */
import type { SnapshotManifest, SnapshotReceipt, VisitorExportRange, VisitorTotals } from '../contract.js';
import { isDate } from '../visitor-export/date-range.js';
import { sha256Hex } from './content-digest.js';
import { manifestKey, snapshotFolder } from './layout.js';
import { SnapshotStoreError, type SnapshotStore } from './snapshot-store.js';

/** The manifest in the bytes; null where they hold none. */
export function parseManifest(bytes: Uint8Array): SnapshotManifest | null {
  try {
    const value = JSON.parse(Buffer.from(bytes).toString('utf8')) as Partial<SnapshotManifest> | null;
    return isManifest(value) ? value : null;
  } catch {
    return null;
  }
}

// A file that is no manifest must not stop a reader of many. A newer release may know more kinds of `drift`
// (InconsistencyKind in contract/visitor-export.ts), so any text is a kind.
function isManifest(value: Partial<SnapshotManifest> | null): value is SnapshotManifest {
  return (
    isPlainName(value?.snapshotId) &&
    typeof value?.projectId === 'string' &&
    isDay(value.dateFrom) &&
    isDay(value.dateTo) &&
    isCount(value.rows) &&
    isCounts(value.totals) &&
    typeof value.consistent === 'boolean' &&
    typeof value.provisional === 'boolean' &&
    (value.drift == null || (typeof value.drift.kind === 'string' && isCount(value.drift.offset))) &&
    typeof value.exportedAt === 'string' &&
    Number.isFinite(Date.parse(value.exportedAt)) &&
    Array.isArray(value.files) &&
    value.files.every(isFile) &&
    isAbsentOrCounts(value.rowSums) &&
    isAbsentOrCounts(value.rowMaxima)
  );
}

function isDay(value: unknown): boolean {
  return typeof value === 'string' && isDate(value);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isCounts(value: Partial<VisitorTotals> | undefined): boolean {
  return isCount(value?.human) && isCount(value?.ai) && isCount(value?.total);
}

function isAbsentOrCounts(value: Partial<VisitorTotals> | undefined): boolean {
  return value == null || isCounts(value);
}

/** What becomes a part of a key: it must not lead elsewhere, nor be more than a folder can hold. */
function isPlainName(value: unknown): boolean {
  return typeof value === 'string' && /^\w[\w.-]{0,127}$/.test(value);
}

function isFile(value: Partial<SnapshotManifest['files'][number]> | null): boolean {
  return isPlainName(value?.name) && isCount(value?.rows) && isCount(value?.bytes) && typeof value?.sha256 === 'string';
}

/**
 * The manifest of a date range's snapshot; null where there is no snapshot. Throws where another project's lies in its
 * place.
 */
export async function readManifest(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const bytes = await store.read(manifestKey(range));
  const manifest = bytes && parseManifest(bytes);
  if (!manifest) return null;
  const { projectId } = manifest;
  if (projectId !== range.projectId && folded(projectId) === folded(range.projectId)) {
    const error = new Error(`the store does not tell the projects ${projectId} and ${range.projectId} apart`);
    throw new SnapshotStoreError('write', manifestKey(range), error);
  }
  return isOf(manifest, range) ? manifest : null;
}

/** Whether the manifest is of this date range, and no copy of another's. */
export function isOf(manifest: SnapshotManifest, { projectId, dateFrom, dateTo }: VisitorExportRange): boolean {
  return manifest.projectId === projectId && manifest.dateFrom === dateFrom && manifest.dateTo === dateTo;
}

/** As disks see names that fold case. */
function folded(id: string): string {
  return id.normalize('NFC').toLowerCase();
}

/** A manifest as it is written: its checksum with it. */
export function encodeManifest(manifest: SnapshotManifest): Buffer {
  const signed = { ...manifest, checksum: checksumOf(manifest) };
  return Buffer.from(`${JSON.stringify(signed, null, 2)}\n`);
}

/** SHA-256 of all fields but the checksum, whatever their order. */
function checksumOf({ checksum: _, ...fields }: SnapshotManifest): string {
  const sorted = (__: string, value: unknown) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return sha256Hex(JSON.stringify(fields, sorted));
}

/** Names a date range's content: rows (by their digest) and totals. */
export function snapshotId(range: VisitorExportRange, rows: number, content: string, totals: VisitorTotals): string {
  const { projectId, dateFrom, dateTo } = range;
  const { human, ai, total } = totals;
  return sha256Hex(JSON.stringify([projectId, dateFrom, dateTo, rows, content, human, ai, total]));
}

/** Whether the manifest is the one that was written: without a checksum nobody knows, and it is believed. */
export function isAsWritten(manifest: SnapshotManifest): boolean {
  return manifest.checksum === undefined || manifest.checksum === checksumOf(manifest);
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

/** `manifest.json` of a snapshot: parsing and checks, its checksum, `snapshotId`, and the receipt made from it. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { SnapshotManifest, SnapshotReceipt, VisitorExportRange, VisitorTotals } from '../../contract.js';
import { sha256Hex } from './content-digest.js';
import { manifestKey, snapshotFolder } from './layout.js';
import { type SnapshotStore, SnapshotStoreError } from './snapshot-store.js';

/** Raised with every change of the manifest that an older reader would misread. */
export const FORMAT_VERSION = 1;

const COUNT = z.int().min(0);
const TOTALS = z.object({ human: COUNT, ai: COUNT, total: COUNT });
/** A part of a key: it must not lead elsewhere, nor be more than a folder can hold. */
const PLAIN_NAME = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/);

/** What a reader checks of a manifest; the published schema has the same bounds. The rest is for people. */
export const CHECKED_FIELDS = z.object({
  formatVersion: z.literal(FORMAT_VERSION).optional(),
  snapshotId: PLAIN_NAME,
  projectId: z.string(),
  dateFrom: z.iso.date(),
  dateTo: z.iso.date(),
  rows: COUNT,
  totals: TOTALS,
  consistent: z.boolean(),
  provisional: z.boolean(),
  // A newer release may know more kinds.
  drift: z.object({ kind: z.string(), offset: COUNT }).optional(),
  exportedAt: z.iso.datetime(),
  files: z.array(z.object({ name: PLAIN_NAME, rows: COUNT, bytes: COUNT, sha256: z.string() })),
});

/** The manifest in the bytes; null if they hold none: a file that is no manifest must not stop a reader of many. */
export function parseManifest(bytes: Uint8Array): SnapshotManifest | null {
  const value = jsonOf(bytes);
  // Its other fields count for the checksum, so the value itself is used.
  return CHECKED_FIELDS.safeParse(value).success ? (value as SnapshotManifest) : null;
}

/** Why a manifest of a newer release can't be read, in words; null if it is no such manifest. */
export function newerFormat(bytes: Uint8Array): string | null {
  const { formatVersion } = (jsonOf(bytes) ?? {}) as { formatVersion?: unknown };
  if (!(Number(formatVersion) > FORMAT_VERSION)) return null;
  const versions = `format ${Number(formatVersion)}; this one knows ${FORMAT_VERSION}`;
  return `a newer release wrote this manifest (${versions}): upgrade the workers and the command line`;
}

/** The JSON in the bytes; null if they hold none, or there are none. */
export function jsonOf(bytes: Uint8Array | null): unknown {
  try {
    return JSON.parse(Buffer.from(bytes ?? []).toString('utf8'));
  } catch {
    return null;
  }
}

/** A newer release wrote the manifest. It may not be replaced, and its day is not one without a snapshot. */
class NewerManifestError extends SnapshotStoreError {}

/** The manifest at a key; null if there is none that can be read. Throws if a newer release wrote it. */
export async function readManifestAt(store: SnapshotStore, key: string): Promise<SnapshotManifest | null> {
  const bytes = await store.read(key);
  const manifest = bytes && parseManifest(bytes);
  if (!bytes || manifest) return manifest;
  const newer = newerFormat(bytes);
  if (newer !== null) throw new NewerManifestError('read', key, new Error(newer));
  return null;
}

/** The same manifest, or null if a newer release wrote it: for a mere comparison. */
export async function unlessNewer(manifest: Promise<SnapshotManifest | null>): Promise<SnapshotManifest | null> {
  return manifest.catch((error: unknown) => {
    if (error instanceof NewerManifestError) return null;
    throw error;
  });
}

/** The manifest of a range's snapshot, or null. Throws for one of another project, or of a newer release. */
export async function readManifest(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const manifest = await readManifestAt(store, manifestKey(range));
  if (!manifest) return null;
  const { projectId } = manifest;
  if (projectId !== range.projectId && folded(projectId) === folded(range.projectId)) {
    const error = new Error(`the store does not keep the projects ${projectId} and ${range.projectId} apart`);
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

/** Whether the manifest is the one that was written. Without a checksum it is believed. */
export function isAsWritten(manifest: SnapshotManifest): boolean {
  return manifest.checksum === undefined || manifest.checksum === checksumOf(manifest);
}

/** A snapshot as the result of an export describes it. */
export function receiptOf(store: SnapshotStore, manifest: SnapshotManifest, unchanged: boolean): SnapshotReceipt {
  const { snapshotId: id, projectId, dateFrom, dateTo, rows, totals, consistent, provisional, drift, files } = manifest;
  return {
    snapshotId: id,
    projectId,
    dateFrom,
    dateTo,
    location: store.urlOf(snapshotFolder(manifest)),
    rows,
    totals,
    files: files.length,
    consistent,
    provisional,
    unchanged,
    ...(drift && { drift }),
  };
}

/** Whether a snapshot is what was written: sizes, and then what the files hold. verify.ts says it in words. */
export async function isWhole(
  store: SnapshotStore,
  manifest: SnapshotManifest,
  { sizesOnly = false } = {},
): Promise<boolean> {
  if (!isAsWritten(manifest)) return false;
  for (const { name, bytes, sha256 } of manifest.files) {
    const key = `${snapshotFolder(manifest)}/${name}`;
    if ((await store.size(key)) !== bytes) return false;
    if (!sizesOnly && (await sha256Of(store, key)) !== sha256) return false;
  }
  return true;
}

/** The names of Parquet files in a folder that the manifest does not name: a glob reads them too. */
export async function foreignFiles(
  store: SnapshotStore,
  { files }: SnapshotManifest,
  folder: string,
  keys: Iterable<string> | AsyncIterable<string>,
): Promise<string[]> {
  const foreign: string[] = [];
  for await (const key of keys) {
    const name = key.slice(folder.length + 1);
    if (!name.endsWith('.parquet') || files.some((file) => file.name === name)) continue;
    if ((await store.size(key)) !== null) foreign.push(name); // one that is gone was replaced since it was listed
  }
  return foreign;
}

/** SHA-256 of an object, as 64 hexadecimal digits, read piece by piece. */
export async function sha256Of(store: SnapshotStore, key: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of store.stream(key)) hash.update(piece);
  return hash.digest('hex');
}

/** `manifest.json` of a snapshot: parsing and checks, its checksum, `snapshotId`, and the receipt made from it. */
import { createHash } from 'node:crypto';
import type {
  Inconsistency,
  SnapshotManifest,
  SnapshotReceipt,
  VisitorExportRange,
  VisitorTotals,
} from '../contract.js';
import { checkObject, InvalidInputError } from '../contract/input-checks.js';
import {
  FLAG,
  type JsonSchema,
  type Kind,
  type Kinds,
  object,
  parseFields,
  schemaOf,
  TEXT,
} from '../contract/kinds.js';
import { DATE } from '../visitor-export/input.js';
import { sha256Hex } from './content-digest.js';
import { manifestKey, snapshotFolder } from './layout.js';
import { type SnapshotStore, SnapshotStoreError } from './snapshot-store.js';

/** Raised with every change of the manifest that an older reader would misread. */
export const FORMAT_VERSION = 1;

/** The manifest in the bytes; null where they hold none: a file that is no manifest must not stop a reader of many. */
export function parseManifest(bytes: Uint8Array): SnapshotManifest | null {
  try {
    const fields = fieldsOf(bytes);
    parseFields(CHECKED_FIELDS, fields);
    return fields as unknown as SnapshotManifest;
  } catch {
    return null;
  }
}

/** Why a manifest of a newer release can't be read, in words; null where it is none of such. */
export function newerFormat(bytes: Uint8Array): string | null {
  try {
    const version = Number(fieldsOf(bytes)['formatVersion']);
    if (!(version > FORMAT_VERSION)) return null;
    const versions = `format ${version}; this one knows ${FORMAT_VERSION}`;
    return `a newer release wrote this manifest (${versions}): upgrade the workers and the command line`;
  } catch {
    return null;
  }
}

function fieldsOf(bytes: Uint8Array): Record<string, unknown> {
  return checkObject(JSON.parse(Buffer.from(bytes).toString('utf8')), 'manifest');
}

/** A newer release wrote the manifest: nobody may replace it, or take its day for one without a snapshot. */
class NewerManifestError extends SnapshotStoreError {}

/** The manifest at a key; null where there is none, or none that can be read. Throws where a newer release wrote it. */
export async function readManifestAt(store: SnapshotStore, key: string): Promise<SnapshotManifest | null> {
  const bytes = await store.read(key);
  const manifest = bytes && parseManifest(bytes);
  if (!bytes || manifest) return manifest;
  const newer = newerFormat(bytes);
  if (newer !== null) throw new NewerManifestError('read', key, new Error(newer));
  return null;
}

/** The same manifest, or null where a newer release wrote it: for those who only compare with it. */
export async function unlessNewer(manifest: Promise<SnapshotManifest | null>): Promise<SnapshotManifest | null> {
  return manifest.catch((error: unknown) => {
    if (error instanceof NewerManifestError) return null;
    throw error;
  });
}

const FORMAT: Kind<number> = {
  check: (value, field) => {
    if (value === FORMAT_VERSION) return value;
    throw new InvalidInputError(field, `must be ${FORMAT_VERSION}`);
  },
  schema: () => ({ type: 'integer', const: FORMAT_VERSION }),
};

const COUNT: Kind<number> = {
  check: (value, field) => {
    if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
    throw new InvalidInputError(field, 'must be a count');
  },
  schema: () => ({ type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
};

const NAME_PATTERN = '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$';

/** What becomes a part of a key: it must not lead elsewhere, nor be more than a folder can hold. */
const PLAIN_NAME: Kind<string> = {
  check: (value, field) => {
    if (typeof value === 'string' && new RegExp(NAME_PATTERN).test(value)) return value;
    throw new InvalidInputError(field, 'must be a plain name');
  },
  schema: () => ({ type: 'string', pattern: NAME_PATTERN }),
};

const TIME: Kind<string> = {
  check: (value, field) => {
    if (typeof value === 'string' && Number.isFinite(Date.parse(value))) return value;
    throw new InvalidInputError(field, 'must be a time');
  },
  schema: () => ({ type: 'string', format: 'date-time' }),
};

const TOTALS = { human: COUNT, ai: COUNT, total: COUNT } satisfies Kinds<VisitorTotals>;
const COUNTS: Kind<VisitorTotals> = {
  check: object({ ...TOTALS }).check,
  schema: () => boundedShape('VisitorTotals', TOTALS),
};

/** A newer release may know more kinds (InconsistencyKind in contract/visitor-export.ts), so any text is a kind. */
const DRIFT: Kind<Inconsistency, unknown> = {
  check: object({ kind: TEXT, offset: COUNT }).check,
  schema: () => boundedShape('Inconsistency', { offset: COUNT }),
};

/** A published shape, with bounds of some of its fields. */
function boundedShape(name: string, fields: Record<string, Kind<number>>): JsonSchema {
  return { $ref: `#/$defs/${name}`, properties: schemaOf(fields)['properties'] };
}

const FILE = object<ManifestFile, Kinds<ManifestFile>>({ name: PLAIN_NAME, rows: COUNT, bytes: COUNT, sha256: TEXT });
type ManifestFile = SnapshotManifest['files'][number];

const FILES: Kind<ManifestFile[], unknown> = {
  check: (value, field) => {
    if (!Array.isArray(value)) throw new InvalidInputError(field, 'must be a list');
    return value.map((file) => FILE.check(file, field));
  },
  schema: () => ({ type: 'array', items: FILE.schema() }),
};

/** A field that may be missing. A reader takes null for that; nobody writes it. */
function unlessMissing<Given>(kind: Kind<Given, unknown>): Kind<Given, unknown> {
  const check = (value: unknown, field: string): unknown => (value == null ? null : kind.check(value, field));
  return { check, schema: kind.schema, isOptional: true };
}

/** What a reader checks of a manifest; the published schema has the same bounds. The rest is for people. */
export const CHECKED_FIELDS = {
  formatVersion: unlessMissing(FORMAT),
  snapshotId: PLAIN_NAME,
  projectId: TEXT,
  dateFrom: DATE,
  dateTo: DATE,
  rows: COUNT,
  totals: COUNTS,
  consistent: FLAG,
  provisional: FLAG,
  drift: unlessMissing(DRIFT),
  exportedAt: TIME,
  files: FILES,
  rowSums: unlessMissing(COUNTS),
  rowMaxima: unlessMissing(COUNTS),
} satisfies Kinds<Omit<SnapshotManifest, 'rounded' | 'run' | 'supersededAt' | 'checksum'>>;

/**
 * The manifest of a date range's snapshot; null where there is no snapshot. Throws where another project's lies in its
 * place, or one of a newer release.
 */
export async function readManifest(store: SnapshotStore, range: VisitorExportRange): Promise<SnapshotManifest | null> {
  const manifest = await readManifestAt(store, manifestKey(range));
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

// Whether a snapshot is what was written: a quick yes or no, for the export itself. In words: verify.ts.

/** Compares sizes, and then, unless told that sizes will do, what the files hold. */
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

/**
 * The Parquet files among a folder's keys that the manifest does not name, by their names in the folder: a glob reads
 * them too. One that is gone since it was listed was replaced.
 */
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
    if ((await store.size(key)) !== null) foreign.push(name);
  }
  return foreign;
}

/** SHA-256 of an object, as 64 hexadecimal digits, read piece by piece. */
export async function sha256Of(store: SnapshotStore, key: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of store.stream(key)) hash.update(piece);
  return hash.digest('hex');
}

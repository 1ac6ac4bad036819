/** What differs between a snapshot's files and its manifest, in words, for `export verify`. */
import { isDeepStrictEqual } from 'node:util';
import type { SnapshotManifest } from '../../contract.js';
import type { FoundSnapshot } from './catalog.js';
import { ContentDigest, sha256Hex } from './content-digest.js';
import { foreignFiles, isAsWritten, newerFormat, parseManifest, snapshotId } from './manifest.js';
import type { SnapshotStore } from './snapshot-store.js';

/** What a comparison of one snapshot found. */
export interface Verification {
  projectId: string;
  dateFrom: string;
  dateTo: string;
  /** Rows that were read and compared. */
  rows: number;
  /** What differs, in words; none if all is well. */
  problems: string[];
}

/** Compares bytes, hashes, rows and content of a snapshot's files with its manifest; one file in memory at a time. */
export async function verifySnapshot(store: SnapshotStore, found: FoundSnapshot): Promise<Verification> {
  const key = `${found.folder}/manifest.json`;
  let bytes = await store.read(key);
  for (;;) {
    const verification = await verifyBy(store, found, bytes);
    if (verification.problems.length === 0) return verification;
    // It may have been exported anew since its manifest was read.
    const current = await store.read(key);
    if (isDeepStrictEqual(current, bytes)) return verification;
    bytes = current;
  }
}

async function verifyBy(store: SnapshotStore, found: FoundSnapshot, bytes: Buffer | null): Promise<Verification> {
  const { projectId, dateFrom, dateTo } = found;
  const problems: string[] = [];
  const manifest = bytes && parseManifest(bytes);
  const read = manifest ? await compare(store, found, manifest, problems) : 0;
  if (!manifest) problems.push((bytes && newerFormat(bytes)) ?? 'manifest.json is missing or can not be read');
  return { projectId, dateFrom, dateTo, rows: read, problems };
}

async function compare(
  store: SnapshotStore,
  found: FoundSnapshot,
  manifest: SnapshotManifest,
  problems: string[],
): Promise<number> {
  for (const field of ['projectId', 'dateFrom', 'dateTo'] as const) {
    if (manifest[field] !== found[field]) problems.push(`${field} is ${manifest[field]} in the manifest`);
  }
  // Only the checksum knows what the manifest says beside its files.
  if (manifest.checksum === undefined) problems.push('the manifest has no checksum, so it may have been changed');
  else if (!isAsWritten(manifest)) problems.push('the manifest is not the one that was written: its checksum differs');
  for (const name of await foreignFiles(store, manifest, found.folder, found.keys)) {
    problems.push(`${name} is not in the manifest, and a glob for Parquet reads it`);
  }
  const content = new Content();
  const before = problems.length;
  for (const file of manifest.files) {
    const bytes = await store.read(`${found.folder}/${file.name}`);
    if (bytes) await compareFile(bytes, file, content, problems);
    else problems.push(`${file.name} is missing`);
  }
  if (problems.length > before) return content.rows;
  if (content.rows !== manifest.rows) problems.push(`${content.rows} rows, the manifest says ${manifest.rows}`);
  const repeated = content.rows - content.paths.size;
  if (repeated > 0) problems.push(`${repeated} paths come twice`);
  // The id names totals, too: it differs if any part of the manifest or the rows was changed.
  const id = snapshotId(found, content.rows, content.digest.content, manifest.totals);
  if (id !== manifest.snapshotId) problems.push('rows or totals are not those that snapshotId names');
  return content.rows;
}

async function compareFile(
  bytes: Buffer,
  file: SnapshotManifest['files'][number],
  content: Content,
  problems: string[],
): Promise<void> {
  const { name } = file;
  if (bytes.length !== file.bytes) problems.push(`${name} has ${bytes.length} bytes, the manifest says ${file.bytes}`);
  if (sha256Hex(bytes) !== file.sha256) problems.push(`${name} has another sha256 than the manifest says`);
  try {
    const rows = await content.add(bytes);
    if (rows !== file.rows) problems.push(`${name} has ${rows} rows, the manifest says ${file.rows}`);
  } catch (error) {
    problems.push(`${name} is no Parquet file that can be read: ${(error as Error).message}`);
  }
}

/** What the files of a snapshot hold, whatever their order. */
class Content {
  rows = 0;
  readonly paths = new Set<string>();
  readonly digest = new ContentDigest();

  async add(bytes: Buffer): Promise<number> {
    const before = this.rows;
    const { readRows } = await import('./parquet.js');
    for await (const rows of readRows(bytes)) {
      for (const row of rows) {
        this.paths.add(row.path);
        this.digest.add(row);
      }
      this.rows += rows.length;
    }
    return this.rows - before;
  }
}

/**
 * What lies beside the published snapshots: rows on their way into one, an object for each chunk, so that any worker
 * can go on; and replaced snapshots, retained for thirty days.
 */
import type { SnapshotManifest, VisitorExportRange } from '../../contract.js';
import { DAY_MS } from '../../contract/shared.js';
import { CHECKPOINT_VERSION, type ScanCheckpoint } from '../scan-checkpoint.js';
import { pathHash, sha256Hex, type VisitorRow } from './content-digest.js';
import {
  chunkKey,
  snapshotFolder,
  stagingFolder,
  stagingKey,
  supersededFolder,
  supersededProjectFolder,
} from './layout.js';
import { encodeManifest, jsonOf } from './manifest.js';
import { PathSet } from './scan.js';
import type { SnapshotStore } from './snapshot-store.js';

/** Names the chunks of one scan. `runId` is the first run id of the workflow's chain: continue-as-new keeps it. */
export interface StagedScan {
  range: VisitorExportRange;
  runId: string;
  scan: number;
}

/** The chunks in the store are not the checkpoint's, or the checkpoint is another release's. The scan begins anew. */
export class StaleStagingError extends Error {
  override readonly name = 'StaleStagingError';
}

/** Throws if another release made the checkpoint. Before the first page a scan begun anew would be the same again. */
export function checkCheckpoint({ version, pages }: ScanCheckpoint): void {
  if (version === CHECKPOINT_VERSION) return;
  const versions = `checkpoint version ${version}; this worker knows ${CHECKPOINT_VERSION}`;
  const words = `Another release made the scan (${versions}): run workers of one release`;
  throw pages === 0 ? new Error(words) : new StaleStagingError(words);
}

/** Writes the next chunk, or replaces it; returns the checkpoint's new `chunks` and `staged`. */
export async function stageChunk(
  store: SnapshotStore,
  { range, runId, scan }: StagedScan,
  { chunks, staged }: ScanCheckpoint,
  rows: readonly VisitorRow[],
): Promise<Pick<ScanCheckpoint, 'chunks' | 'staged'>> {
  // The first chunk is staged even without rows: if it is gone, another run has cleaned up.
  if (rows.length === 0 && chunks > 0) return { chunks, staged };
  const { writeParquet } = await import('./parquet.js');
  const bytes = writeParquet(rows);
  await store.put(chunkKey(range, runId, scan, chunks), bytes);
  return { chunks: chunks + 1, staged: chained(staged, bytes) };
}

/** The Parquet files of a scan's chunks, in order. After the last one it throws if a chunk is not the one staged. */
export async function* stagedParquet(
  store: SnapshotStore,
  { range, runId, scan }: StagedScan,
  checkpoint: ScanCheckpoint,
): AsyncGenerator<Uint8Array> {
  let chain = '';
  for (let chunk = 0; chunk < checkpoint.chunks; chunk++) {
    const key = chunkKey(range, runId, scan, chunk);
    const bytes = await store.read(key);
    if (!bytes) throw new StaleStagingError(`The staged rows ${key} are gone`);
    chain = chained(chain, bytes);
    yield bytes;
  }
  if (chain !== checkpoint.staged) {
    throw new StaleStagingError(`The staged rows of scan ${scan} are not the ones that were read`);
  }
}

/** The path hashes of all rows that a scan has staged so far. */
export async function stagedPaths(
  store: SnapshotStore,
  staged: StagedScan,
  checkpoint: ScanCheckpoint,
): Promise<PathSet> {
  const { readRows } = await import('./parquet.js');
  const paths = new PathSet();
  for await (const file of stagedParquet(store, staged, checkpoint)) {
    for await (const rows of readRows(file)) {
      for (const { path } of rows) paths.add(pathHash(checkpoint.pathKey, path));
    }
  }
  return paths;
}

function chained(chain: string, bytes: Uint8Array): string {
  return sha256Hex(chain + sha256Hex(bytes));
}

/**
 * Removes a date range's work in progress, of every run, and unfinished copies of killed writers: the manifest of a
 * copy is its last object.
 */
export async function cleanUpStaging(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  await store.removeFolder(stagingFolder(range));
  const copies = supersededFolder(range);
  const keys: string[] = [];
  for await (const key of store.list(copies)) keys.push(key);
  const whole = new Set(keys.filter((key) => COPY.test(key)).map(folderOf));
  for (const key of keys) if (!whole.has(folderOf(key))) await store.remove(key);
  await store.removeFolder(stagingKey(copies));
}

// Replaced snapshots.

/** How long a replaced snapshot is retained. */
const RETENTION_MS = 30 * DAY_MS;
/** The manifest of a copy. */
const COPY = /\/snapshotId=[^/]+\/manifest\.json$/;

/** The keys of the Parquet files of a snapshot's copy. */
export function copyKeys(snapshot: SnapshotManifest): string[] {
  return snapshot.files.map(({ name }) => `${supersededFolder(snapshot, snapshot.snapshotId)}/${name}`);
}

/** Copies a snapshot that is about to be replaced, its manifest last. `supersededAt` is ISO 8601. */
export async function keepSuperseded(
  store: SnapshotStore,
  current: SnapshotManifest,
  supersededAt: string,
): Promise<void> {
  const [from, to] = [snapshotFolder(current), supersededFolder(current, current.snapshotId)];
  const before: string[] = [];
  for await (const key of store.list(to)) before.push(key);
  for (const { name } of current.files) await store.put(`${to}/${name}`, store.stream(`${from}/${name}`));
  await store.put(`${to}/manifest.json`, encodeManifest({ ...current, supersededAt }));
  // The same content was replaced before, and its rows may have come in another order.
  const kept = [`${to}/manifest.json`, ...copyKeys(current)];
  for (const key of before) if (!kept.includes(key)) await store.remove(key);
}

/** Removes what a project has retained for longer than thirty days; returns the folders. */
export async function removeExpired(store: SnapshotStore, now: number, projectId: string): Promise<string[]> {
  const expired: string[] = [];
  for await (const key of store.list(supersededProjectFolder(projectId))) {
    if (!COPY.test(key)) continue; // not written by an export
    const { supersededAt } = Object(jsonOf(await store.read(key))) as { supersededAt?: unknown };
    if (typeof supersededAt !== 'string') continue;
    if (now - Date.parse(supersededAt) > RETENTION_MS) expired.push(folderOf(key));
  }
  for (const folder of expired) await store.removeFolder(folder);
  return expired;
}

function folderOf(key: string): string {
  return key.slice(0, key.lastIndexOf('/'));
}

/** Rows on their way into a snapshot: one object a chunk, in the store, so that any worker can continue. */
import type { VisitorExportRange } from '../contract.js';
import type { ScanCheckpoint } from '../visitor-export/scan-checkpoint.js';
import { rangeFolderOf } from './catalog.js';
import { sha256Hex, type VisitorRow } from './content-digest.js';
import { chunkKey, snapshotFolder, SNAPSHOTS_FOLDER, STAGING, stagingFolder, SUPERSEDED_FOLDER } from './layout.js';
import { PathSet } from './scan.js';
import type { SnapshotStore } from './snapshot-store.js';
import { cleanUpSuperseded } from './superseded.js';

/** Names the chunks of one scan. `runId` is the first run id of the workflow's chain: continue-as-new keeps it. */
export interface StagedScan {
  range: VisitorExportRange;
  runId: string;
  scan: number;
}

/**
 * The chunks in the store are not the checkpoint's: they were lost, or overwritten by an attempt that had timed out.
 */
export class StaleStagingError extends Error {
  override readonly name = 'StaleStagingError';
}

/**
 * Writes the next chunk; returns the checkpoint's new `chunks` and `staged`. A chunk that is read again is replaced.
 */
export async function stageChunk(
  store: SnapshotStore,
  { range, runId, scan }: StagedScan,
  { chunks, staged }: ScanCheckpoint,
  rows: ChunkEncoder,
): Promise<Pick<ScanCheckpoint, 'chunks' | 'staged'>> {
  // The first chunk is staged even without rows: its absence tells a stalled writer that another run has cleaned up.
  if (rows.length === 0 && chunks > 0) return { chunks, staged };
  const bytes = await rows.finish();
  await store.put(chunkKey(range, runId, scan, chunks), bytes);
  return { chunks: chunks + 1, staged: chained(staged, bytes) };
}

/**
 * The Parquet files of a scan's chunks, in order, each valid until the next is asked for. Throws a StaleStagingError
 * where they are not those that the checkpoint names. A changed chunk shows only after the last one.
 */
export async function* stagedParquet(
  store: SnapshotStore,
  staged: StagedScan,
  checkpoint: ScanCheckpoint,
): AsyncGenerator<Uint8Array> {
  for await (const bytes of stagedChunks(store, staged, checkpoint)) {
    const parquet = chunkParquet(bytes);
    if (parquet.length > 0) yield parquet;
  }
}

/** The path hashes of all rows that a scan has staged so far. */
export async function stagedPaths(
  store: SnapshotStore,
  staged: StagedScan,
  checkpoint: ScanCheckpoint,
): Promise<PathSet> {
  const paths = new PathSet();
  for await (const bytes of stagedChunks(store, staged, checkpoint)) {
    for (const hash of chunkHashes(bytes)) paths.add(hash);
  }
  return paths;
}

async function* stagedChunks(
  store: SnapshotStore,
  { range, runId, scan }: StagedScan,
  checkpoint: ScanCheckpoint,
): AsyncGenerator<Buffer> {
  let chain = '';
  let largest: Buffer | undefined; // reused for the next chunk
  for (let chunk = 0; chunk < checkpoint.chunks; chunk++) {
    const key = chunkKey(range, runId, scan, chunk);
    const bytes = await store.read(key, largest);
    if (!bytes) throw new StaleStagingError(`The staged rows ${key} are gone`);
    if (bytes.length > (largest?.length ?? 0)) largest = bytes;
    chain = chained(chain, bytes);
    yield bytes;
  }
  if (chain !== checkpoint.staged) {
    throw new StaleStagingError(`The staged rows of scan ${scan} are not the ones that were read`);
  }
}

function chained(chain: string, bytes: Uint8Array): string {
  return sha256Hex(chain + sha256Hex(bytes));
}

/** Removes a date range's work in progress, of every run. */
export async function cleanUpStaging(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  await store.removeFolder(stagingFolder(range));
  await cleanUpSuperseded(store, range);
  // Best effort: not every account may list uploads, and unfinished ones are never visible.
  await store.removeUnfinished(snapshotFolder(range)).catch(() => {});
}

/** The date ranges that have work in progress, of any run. */
export async function stagedRanges(store: SnapshotStore): Promise<VisitorExportRange[]> {
  const ranges = new Map<string, VisitorExportRange>();
  for await (const key of store.list(STAGING)) {
    // Copies of snapshots that are about to be replaced are written there, too.
    const published = key.slice(STAGING.length + 1).replace(`${SUPERSEDED_FOLDER}/`, `${SNAPSHOTS_FOLDER}/`);
    const range = rangeFolderOf(published);
    if (range) ranges.set(range.folder, range);
  }
  return [...ranges.values()].map(({ projectId, dateFrom, dateTo }) => ({ projectId, dateFrom, dateTo }));
}

const COUNT_BYTES = 4;
const HASH_BYTES = 8;

/**
 * The rows of one chunk on their way into staging: a Parquet file, path hashes, then the row count, in one object.
 */
export class ChunkEncoder {
  readonly #rows: VisitorRow[] = [];
  readonly #hashes: bigint[] = [];
  #bytes = 0;

  get length(): number {
    return this.#rows.length;
  }

  /** What the paths take as UTF-8: about what the rows take in memory, where paths are long. */
  get bytes(): number {
    return this.#bytes;
  }

  add(row: VisitorRow, hash: bigint): void {
    this.#rows.push(row);
    this.#hashes.push(hash);
    this.#bytes += Buffer.byteLength(row.path);
  }

  /** The chunk's bytes. */
  async finish(): Promise<Uint8Array> {
    const end = Buffer.alloc(HASH_BYTES * this.length + COUNT_BYTES);
    this.#hashes.forEach((hash, row) => end.writeBigUInt64LE(hash, HASH_BYTES * row));
    end.writeUInt32LE(this.length, HASH_BYTES * this.length);
    if (this.length === 0) return end;
    const { writeParquet } = await import('./parquet.js');
    return Buffer.concat([writeParquet(this.#rows), end]);
  }
}

/** The path hashes in a chunk's bytes. */
function* chunkHashes(bytes: Buffer): Generator<bigint> {
  for (let at = parquetEnd(bytes); at < bytes.length - COUNT_BYTES; at += HASH_BYTES) {
    yield bytes.readBigUInt64LE(at);
  }
}

/** The Parquet file in a chunk's bytes; empty where it has no rows. */
function chunkParquet(bytes: Buffer): Buffer {
  return bytes.subarray(0, parquetEnd(bytes));
}

function parquetEnd(bytes: Buffer): number {
  const end = bytes.length - COUNT_BYTES;
  return end - bytes.readUInt32LE(end) * HASH_BYTES;
}

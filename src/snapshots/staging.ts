/** Rows on their way into a snapshot: one object a chunk, in the store, so that any worker can go on. */
import type { VisitorExportRange } from '../contract.js';
import type { ScanCheckpoint } from '../visitor-export/scan-checkpoint.js';
import { chunkHashes, chunkParquet, type ChunkEncoder } from './chunk-encoder.js';
import { sha256Hex } from './content-digest.js';
import { chunkKey } from './layout.js';
import { PathSet } from './path-set.js';
import type { SnapshotStore } from './snapshot-store.js';

/** Where the chunks of one scan lie: `run` is the first run id of the workflow's chain, so that continue-as-new finds them again. */
export interface StagedScan {
  range: VisitorExportRange;
  run: string;
  scan: number;
}

/** The chunks in the store are not the ones that the checkpoint speaks of: lost, or overwritten by a worker that was given up. */
export class StagingSpoiledError extends Error {
  override readonly name = 'StagingSpoiledError';
}

/** Writes the rows of the next chunk; gives the checkpoint's new `chunks` and `staged`. A chunk that is read again replaces the first. */
export async function stageChunk(
  store: SnapshotStore,
  { range, run, scan }: StagedScan,
  { chunks, staged }: ScanCheckpoint,
  rows: ChunkEncoder,
): Promise<Pick<ScanCheckpoint, 'chunks' | 'staged'>> {
  // The first chunk is staged even without rows: a writer of none must find out, too, that another run has swept it.
  if (rows.length === 0 && chunks > 0) return { chunks, staged };
  const bytes = rows.finish();
  await store.put(chunkKey(range, run, scan, chunks), bytes);
  return { chunks: chunks + 1, staged: chained(staged, bytes) };
}

/** The Parquet files of a scan's chunks, in order, each good until the next; throws a StagingSpoiledError, at the latest after the last one, where they are not the checkpoint's. */
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

/** The paths of all rows that a scan has kept so far. */
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
  { range, run, scan }: StagedScan,
  checkpoint: ScanCheckpoint,
): AsyncGenerator<Buffer> {
  let chain = '';
  let largest: Buffer | undefined; // read into again and again
  for (let chunk = 0; chunk < checkpoint.chunks; chunk++) {
    const key = chunkKey(range, run, scan, chunk);
    const bytes = await store.read(key, largest);
    if (!bytes) throw new StagingSpoiledError(`The staged rows ${key} are gone`);
    if (bytes.length > (largest?.length ?? 0)) largest = bytes;
    chain = chained(chain, bytes);
    yield bytes;
  }
  if (chain !== checkpoint.staged) {
    throw new StagingSpoiledError(`The staged rows of scan ${scan} are not the ones that were read`);
  }
}

function chained(chain: string, bytes: Uint8Array): string {
  return sha256Hex(chain + sha256Hex(bytes));
}

import type { ScanCheckpoint } from '../../visitor-export/scan-checkpoint.js';
import { chunkKey } from '../../snapshots/layout.js';
import { PathSet } from '../../snapshots/scan.js';
import type { SnapshotStore } from '../../snapshots/snapshot-store.js';
import { stagedPaths, type StagedScan } from '../../snapshots/staging.js';

/** Bounds the memory of a worker: a set takes 16 to 32 bytes a path. Evicted sets are rebuilt from staging. */
const MAX_CACHED = 4;

/** A cache of the path sets of the scans that this worker reads; a scan that another worker began is rebuilt. */
export class PathSets {
  readonly #cached = new Map<string, PathSet>();

  /** The paths of a scan at a checkpoint. The caller owns the set: a chunk that fails leaves no changed set behind. */
  async take(store: SnapshotStore, staged: StagedScan, checkpoint: ScanCheckpoint): Promise<PathSet> {
    if (checkpoint.chunks === 0) return new PathSet();
    const name = nameOf(store, staged, checkpoint);
    const cached = this.#cached.get(name);
    this.#cached.delete(name);
    return cached ?? (await stagedPaths(store, staged, checkpoint));
  }

  /** Caches a set for the next chunk of its scan. */
  keep(store: SnapshotStore, staged: StagedScan, checkpoint: ScanCheckpoint, paths: PathSet): void {
    if (checkpoint.stage === 'ended') return;
    this.#cached.set(nameOf(store, staged, checkpoint), paths);
    const [oldest] = this.#cached.keys();
    if (this.#cached.size > MAX_CACHED && oldest !== undefined) this.#cached.delete(oldest);
  }
}

// The chain of hashes identifies the rows themselves.
function nameOf(store: SnapshotStore, { range, runId, scan }: StagedScan, { chunks, staged }: ScanCheckpoint): string {
  return `${store.url}|${chunkKey(range, runId, scan, chunks)}|${staged}`;
}

import type { ScanCheckpoint } from '../../visitor-export/scan-checkpoint.js';
import { chunkKey } from '../../snapshots/layout.js';
import { PathSet } from '../../snapshots/path-set.js';
import type { SnapshotStore } from '../../snapshots/snapshot-store.js';
import { stagedPaths, type StagedScan } from '../../snapshots/staging.js';

const MOST_KEPT = 4;

/** The path sets of the scans that this worker reads, so that they are rebuilt from staging only where another worker went before. */
export class PathSets {
  readonly #kept = new Map<string, PathSet>();

  /** The paths of a scan at a checkpoint. The caller owns the set: a chunk that fails half-way leaves none behind. */
  async take(store: SnapshotStore, staged: StagedScan, checkpoint: ScanCheckpoint): Promise<PathSet> {
    if (checkpoint.chunks === 0) return new PathSet();
    const name = nameOf(store, staged, checkpoint);
    const kept = this.#kept.get(name);
    this.#kept.delete(name);
    return kept ?? (await stagedPaths(store, staged, checkpoint));
  }

  /** Keeps a set for the next chunk of its scan. */
  keep(store: SnapshotStore, staged: StagedScan, checkpoint: ScanCheckpoint, paths: PathSet): void {
    if (checkpoint.stage === 'ended') return;
    this.#kept.set(nameOf(store, staged, checkpoint), paths);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MOST_KEPT && oldest !== undefined) this.#kept.delete(oldest);
  }
}

// The chain of hashes names the very rows.
function nameOf(store: SnapshotStore, { range, run, scan }: StagedScan, { chunks, staged }: ScanCheckpoint): string {
  return `${store.url}|${chunkKey(range, run, scan, chunks)}|${staged}`;
}

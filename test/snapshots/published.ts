/** The path of a snapshot's Parquet file: its name follows from its content, and the manifest names it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SnapshotManifest, VisitorExportRange } from '../../src/contract.js';
import { manifestKey, snapshotFolder } from '../../src/exports/snapshots/layout.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';

/** The key of a date range's Parquet file; a key of nothing if there is none. */
export async function parquetKey(store: SnapshotStore, range: VisitorExportRange): Promise<string> {
  return named(range, String(await store.read(manifestKey(range))));
}

/** The same, in a folder of this machine. */
export function parquetPath(root: string, range: VisitorExportRange): string {
  return join(root, named(range, readFileSync(join(root, manifestKey(range)), 'utf8')));
}

function named(range: VisitorExportRange, manifest: string): string {
  const [file] = (JSON.parse(manifest) as SnapshotManifest | null)?.files ?? [];
  return `${snapshotFolder(range)}/${file?.name ?? 'none'}`;
}

/** Whether a snapshot is what was written: a quick yes or no, for the export itself. In words: verify.ts. */
import { createHash } from 'node:crypto';
import type { SnapshotManifest } from '../contract.js';
import { PARQUET_NAME, parquetKey, snapshotFolder } from './layout.js';
import { isAsWritten } from './manifest.js';
import type { SnapshotStore } from './snapshot-store.js';

/**
 * Compares sizes, and then, unless told that sizes will do, what the files hold; one without a file must not have one.
 */
export async function isWhole(
  store: SnapshotStore,
  manifest: SnapshotManifest,
  { sizesOnly = false } = {},
): Promise<boolean> {
  if (!isAsWritten(manifest)) return false;
  const { files } = manifest;
  if (!files.some(({ name }) => name === PARQUET_NAME) && (await store.size(parquetKey(manifest))) !== null)
    return false;
  for (const { name, bytes, sha256 } of files) {
    const key = `${snapshotFolder(manifest)}/${name}`;
    if ((await store.size(key)) !== bytes) return false;
    if (!sizesOnly && (await sha256Of(store, key)) !== sha256) return false;
  }
  return true;
}

/** SHA-256 of an object, as 64 hexadecimal digits, read piece by piece. */
export async function sha256Of(store: SnapshotStore, key: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of store.stream(key)) hash.update(piece);
  return hash.digest('hex');
}

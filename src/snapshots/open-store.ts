import { FileStore } from './file-store.js';
import type { S3StoreOptions } from './s3-store.js';
import type { SnapshotStore } from './snapshot-store.js';

/**
 * Opens the store at `file:///dir` or `s3://bucket/prefix`; throws on any other URL. Nothing is read or written yet.
 * The S3 client is loaded where it is needed: it is half of what a worker would load.
 */
export async function openStore(url: string, options: S3StoreOptions = {}): Promise<SnapshotStore> {
  if (url.startsWith('file:')) return new FileStore(url);
  if (url.startsWith('s3:')) {
    const { S3Store } = await import('./s3-store.js');
    return new S3Store(url, options);
  }
  throw new Error(`A snapshot store's URL must be file:///dir or s3://bucket/prefix; it is ${url}`);
}

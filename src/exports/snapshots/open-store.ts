/** Which store a URL names, and how optional packages are loaded. */
import { FileStore } from './file-store.js';
import type { S3StoreOptions } from './s3-store.js';
import type { SnapshotStore } from './snapshot-store.js';

/** What is installed only where it is used: with a worker, and not for the tests of a service. */
const OPTIONAL = {
  'SNAPSHOTS_URL with s3://': ['@aws-sdk/client-s3', '@aws-sdk/lib-storage'],
  'the report': ['echarts'],
};

/**
 * Opens the store at `file:///dir` or `s3://bucket/prefix`; throws on any other URL. Nothing is read or written yet.
 * The S3 client is loaded where it is needed: it is half of what a worker would load.
 */
export async function openStore(url: string, options: S3StoreOptions = {}): Promise<SnapshotStore> {
  if (url.startsWith('file:')) return new FileStore(url);
  if (url.startsWith('s3:')) {
    const { S3Store } = await loadOptional('SNAPSHOTS_URL with s3://', () => import('./s3-store.js'));
    return new S3Store(url, options);
  }
  throw new Error(`A snapshot store's URL must be file:///dir or s3://bucket/prefix; it is ${url}`);
}

/** Loads what needs an optional package; throws an Error that says how to install it. */
export async function loadOptional<T>(what: keyof typeof OPTIONAL, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error(`${what} needs a package that is not installed: npm install ${OPTIONAL[what].join(' ')}`, {
      cause: error,
    });
  }
}

/** What snapshots there are. */
import type { SnapshotManifest } from '../contract.js';
import { SNAPSHOTS_FOLDER, projectFolder } from './layout.js';
import { parseManifest } from './manifest.js';
import type { SnapshotStore } from './snapshot-store.js';

/** The folder of one snapshot, as found: without a manifest there is no snapshot. */
export interface FoundSnapshot {
  /** Its folder's key. */
  folder: string;
  projectId: string;
  dateFrom: string;
  dateTo: string;
  /** Keys of the folder's objects. */
  keys: string[];
}

const MANIFEST = 'manifest.json';
const FOLDER = /^visitors\/projectId=([^/]+)\/dateFrom=([^/]+)\/dateTo=([^/]+)$/;
const READS_AT_ONCE = 8;

/** The folders of a project's windows, or of all projects, in order of project and dates. */
export async function* findSnapshots(store: SnapshotStore, projectId?: string): AsyncGenerator<FoundSnapshot> {
  let found: FoundSnapshot | null = null;
  for await (const key of store.list(projectId === undefined ? SNAPSHOTS_FOLDER : projectFolder(projectId))) {
    const folder = key.slice(0, key.lastIndexOf('/'));
    if (found?.folder === folder) {
      found.keys.push(key);
      continue;
    }
    if (found) yield found;
    found = toFound(folder, key);
  }
  if (found) yield found;
}

/** The manifests of a project's snapshots, or of all, in order of project and dates; folders without one are left out. */
export async function* listManifests(store: SnapshotStore, projectId?: string): AsyncGenerator<SnapshotManifest> {
  for await (const batch of batches(findSnapshots(store, projectId))) {
    const manifests = await Promise.all(batch.map((found) => readFoundManifest(store, found)));
    yield* manifests.filter((manifest) => manifest !== null);
  }
}

/** The manifest in a folder; null where there is none, or none that can be read. */
export async function readFoundManifest(store: SnapshotStore, found: FoundSnapshot): Promise<SnapshotManifest | null> {
  const key = `${found.folder}/${MANIFEST}`;
  if (!found.keys.includes(key)) return null;
  const bytes = await store.read(key);
  return bytes && parseManifest(bytes);
}

function toFound(folder: string, key: string): FoundSnapshot | null {
  const [, encoded, dateFrom, dateTo] = FOLDER.exec(folder) ?? [];
  const projectId = encoded === undefined ? null : decoded(encoded);
  if (projectId === null || dateFrom === undefined || dateTo === undefined) return null;
  return { folder, projectId, dateFrom, dateTo, keys: [key] };
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

async function* batches<T>(source: AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of source) {
    batch.push(item);
    if (batch.length < READS_AT_ONCE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

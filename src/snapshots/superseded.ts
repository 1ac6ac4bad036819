/** Replaced snapshots, retained for thirty days outside `visitors/`. */
import type { SnapshotManifest, VisitorExportRange } from '../contract.js';
import { DAY_MS } from '../contract/shared.js';
import { snapshotFolder, stagingKey, supersededFolder, supersededProjectFolder } from './layout.js';
import { encodeManifest } from './manifest.js';
import type { SnapshotStore } from './snapshot-store.js';

/** How long a replaced snapshot is retained. */
const RETENTION_MS = 30 * DAY_MS;
/** The manifest of a copy. */
const COPY = /\/snapshotId=[^/]+\/manifest\.json$/;

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
  const kept = ['manifest.json', ...current.files.map(({ name }) => name)].map((name) => `${to}/${name}`);
  for (const key of before) if (!kept.includes(key)) await store.remove(key);
}

/** Removes unfinished copies of killed writers of the date range: the manifest of a copy is its last object. */
export async function cleanUpSuperseded(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  const folder = supersededFolder(range);
  const keys: string[] = [];
  for await (const key of store.list(folder)) keys.push(key);
  const whole = new Set(keys.filter((key) => COPY.test(key)).map(folderOf));
  for (const key of keys) if (!whole.has(folderOf(key))) await store.remove(key);
  await store.removeFolder(stagingKey(folder));
  await store.removeUnfinished(folder).catch(() => {}); // never visible
}

/** Removes what a project has retained for longer than thirty days; returns the folders. */
export async function removeExpired(store: SnapshotStore, now: number, projectId: string): Promise<string[]> {
  const expired: string[] = [];
  for await (const key of store.list(supersededProjectFolder(projectId))) {
    if (!COPY.test(key)) continue; // not written by an export
    const supersededAt = supersededAtOf(await store.read(key));
    if (now - Date.parse(supersededAt) > RETENTION_MS) expired.push(folderOf(key));
  }
  for (const folder of expired) await store.removeFolder(folder);
  return expired;
}

function folderOf(key: string): string {
  return key.slice(0, key.lastIndexOf('/'));
}

function supersededAtOf(bytes: Buffer | null): string {
  try {
    const { supersededAt } = JSON.parse(String(bytes)) as { supersededAt?: unknown };
    return typeof supersededAt === 'string' ? supersededAt : '';
  } catch {
    return '';
  }
}

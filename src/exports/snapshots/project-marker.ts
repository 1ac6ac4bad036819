/** Decides whether a store keeps a project apart from all others: a disk that ignores case takes `Acme` for `acme`. */
import { InvalidInputError } from '../../contract/errors.js';
import { decodeId } from '../../contract/shared.js';
import { MARKERS_FOLDER, projectMarkerKey } from './layout.js';
import { jsonOf } from './manifest.js';
import type { SnapshotStore } from './snapshot-store.js';

/**
 * Throws InvalidInputError if the project's folders are those of another one. Outside of what readers glob lies a file
 * with the project's id; `mustMark` makes it if there is none.
 */
export async function checkProject(store: SnapshotStore, projectId: string, mustMark = false): Promise<void> {
  const key = projectMarkerKey(projectId);
  const readOwner = async () => (Object(jsonOf(await store.read(key))) as { projectId?: unknown }).projectId;
  // A file that names no project is none: a copy of the store may have broken off.
  if (mustMark && typeof (await readOwner()) !== 'string')
    await store.put(key, Buffer.from(JSON.stringify({ projectId })));
  const owner = await readOwner();
  if (typeof owner !== 'string' || owner === projectId) return;
  const problem = `has the same folders as project ${JSON.stringify(owner)} in ${store.url}: export into another store`;
  throw new InvalidInputError('projectId', problem);
}

/** The projects that have a mark, as a worker makes it before their first snapshot. */
export async function* markedProjects(store: SnapshotStore): AsyncGenerator<string> {
  for await (const key of store.list(MARKERS_FOLDER)) {
    const projectId = decodeId(/\/projectId=([^/]+)\//.exec(key)?.[1] ?? '');
    if (projectId !== null && projectMarkerKey(projectId) === key) yield projectId;
  }
}

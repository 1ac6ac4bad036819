/** Decides whether a store keeps a project apart from all others: a disk that ignores case takes `Acme` for `acme`. */
import { InvalidInputError } from '../../contract/errors.js';
import { projectMarkerKey } from './layout.js';
import type { SnapshotStore } from './snapshot-store.js';

/**
 * Throws InvalidInputError if the project's folders are those of another one. Outside of what readers glob lies a file
 * with the project's id; `mustMark` makes it if there is none.
 */
export async function checkProject(store: SnapshotStore, projectId: string, mustMark = false): Promise<void> {
  const key = projectMarkerKey(projectId);
  if (mustMark && (await store.read(key)) === null) await store.put(key, Buffer.from(JSON.stringify({ projectId })));
  const marked = await store.read(key);
  const owner = marked === null ? projectId : (JSON.parse(String(marked)) as { projectId?: unknown }).projectId;
  if (owner === projectId) return;
  const problem = `has the same folders as project ${JSON.stringify(owner)} in ${store.url}: export into another store`;
  throw new InvalidInputError('projectId', problem);
}

import type { SnapshotManifest } from '../contract.js';
import { listManifests } from '../snapshots/catalog.js';
import { reportFolder, reportKey } from '../snapshots/layout.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { figuresOf } from './figures.js';
import { topPages } from './top-pages.js';

/** A project's report as one HTML file, from its snapshots alone. `generatedAt` is ISO 8601. */
export async function buildReport(store: SnapshotStore, projectId: string, generatedAt: string): Promise<string> {
  const manifests: SnapshotManifest[] = [];
  for await (const manifest of listManifests(store, projectId)) manifests.push(manifest);
  const figures = figuresOf(projectId, manifests, generatedAt);
  // The charts' library is loaded only where a report is made.
  const { reportPage } = await import('./page.js');
  return reportPage(figures, await topPages(store, figures));
}

/** Puts a project's report into the store, whole; gives its URL. */
export async function writeReport(store: SnapshotStore, projectId: string, generatedAt: string): Promise<string> {
  const page = await buildReport(store, projectId, generatedAt);
  await store.put(reportKey(projectId), Buffer.from(page));
  await store.removeUnfinished(reportFolder(projectId)).catch(() => {}); // never visible, and small
  return store.urlOf(reportKey(projectId));
}

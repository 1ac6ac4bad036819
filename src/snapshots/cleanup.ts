/** Work in progress that no run goes on with. */
import type { VisitorExportRange } from '../contract.js';
import { rangeFolderOf } from './catalog.js';
import { SNAPSHOTS_FOLDER, STAGING, SUPERSEDED_FOLDER, snapshotFolder, stagingFolder } from './layout.js';
import type { SnapshotStore } from './snapshot-store.js';
import { sweepSupersededParts } from './superseded.js';

/** Removes a date range's work in progress, of every run. */
export async function sweepStaging(store: SnapshotStore, range: VisitorExportRange): Promise<void> {
  await store.removeFolder(stagingFolder(range));
  await sweepSupersededParts(store, range);
  // Not every account may list uploads, and they are never visible.
  await store.removeUnfinished(snapshotFolder(range)).catch(() => {});
}

/** The date ranges that have work in progress, of whatever run. */
export async function stagedRanges(store: SnapshotStore): Promise<VisitorExportRange[]> {
  const ranges = new Map<string, VisitorExportRange>();
  for await (const key of store.list(STAGING)) {
    // Copies of what is about to be replaced lie there, too.
    const published = key.slice(STAGING.length + 1).replace(`${SUPERSEDED_FOLDER}/`, `${SNAPSHOTS_FOLDER}/`);
    const range = rangeFolderOf(published);
    if (range) ranges.set(range.folder, range);
  }
  return [...ranges.values()].map(({ projectId, dateFrom, dateTo }) => ({ projectId, dateFrom, dateTo }));
}

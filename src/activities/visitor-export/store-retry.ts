import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { SnapshotStoreError } from '../../snapshots/snapshot-store.js';

/** Waits between tries of a write whose rows cost requests to read; after the last one the workflow decides. */
const WAITS_MS = [500, 2_000, 5_000];

/** Tries work on the store again for a few seconds, so that pages need not be read anew for a hiccup. */
export async function retryingStore<T>(work: () => Promise<T>): Promise<T> {
  for (const waitMs of WAITS_MS) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SnapshotStoreError)) throw error;
      await delay(waitMs, undefined, { signal: Context.current().cancellationSignal });
    }
  }
  return work();
}

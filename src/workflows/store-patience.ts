import { ApplicationFailure, sleep } from '@temporalio/workflow';
import { FAILURE } from '../contract.js';
import { failureOf } from './export-failure.js';

const STORE_PATIENCE_MS = 10 * 60_000;
const STORE_WAIT_MS = { first: 1_000, longest: 60_000 };

/** Lets a store that refuses recover for ten minutes; `probe` is true where it just refused. */
export async function inStore<T>(work: (probe: boolean) => Promise<T>): Promise<T> {
  let since: number | null = null;
  for (let waitMs = STORE_WAIT_MS.first; ; waitMs = Math.min(2 * waitMs, STORE_WAIT_MS.longest)) {
    try {
      return await work(since !== null);
    } catch (error) {
      if (failureOf(error)?.type !== FAILURE.snapshotStoreFailed) throw error;
      since ??= Date.now();
      if (Date.now() - since >= STORE_PATIENCE_MS) throw error;
      await sleep(waitMs);
    }
  }
}

/** The failure of a store that can't be relied on. */
export function storeFailure(message: string, details: { operation: string; error: string }): ApplicationFailure {
  return ApplicationFailure.create({
    type: FAILURE.snapshotStoreFailed,
    message,
    nonRetryable: true,
    details: [details],
  });
}

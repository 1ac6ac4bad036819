/**
 * The activity `awaitKey`: returns once the key of a write that was refused is accepted. It sends no write and knows no
 * prompt, so it may be cancelled at any moment; its waits are kept by the server and cost no history.
 */
import { tryLater } from '../../temporal/activity-attempt.js';
import type { KeyHealth } from './key-health.js';

export interface AwaitKeyInput {
  projectId: string;
  /** Null before the create. */
  jobId: string | null;
}

/** Whoever waits asks this often, but of thousands not all at once: one after the other, so many in a second. */
const ASK_EVERY_MS = 5_000;
const ASKS_PER_SECOND = 20;

export function createAwaitKey(
  keys: Pick<KeyHealth, 'refusalNow'>,
  asksPerSecond = ASKS_PER_SECOND,
): (input: AwaitKeyInput) => Promise<void> {
  const spacingMs = 1_000 / Math.min(asksPerSecond, ASKS_PER_SECOND);
  let lastAt = 0;
  return async ({ projectId, jobId }) => {
    const refusal = await keys.refusalNow(projectId, jobId);
    if (refusal === null) return;
    const now = performance.now();
    lastAt = Math.max(lastAt + spacingMs, now + ASK_EVERY_MS);
    throw tryLater('StillWaiting', refusal, 'asks again', lastAt - now);
  };
}

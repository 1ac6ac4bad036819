import type { JobsWork } from '../jobs-run.js';

/**
 * All jobs at once, each with polls every second and a follow-up in the middle of a wait: the whole life under load.
 */
export function burst(n: number, tag: string): JobsWork {
  return { tag, n, polling: { min: 1_000, max: 1_000, ratio: 0 }, activeMs: 4_000, followUpAfterMs: 1_500 };
}

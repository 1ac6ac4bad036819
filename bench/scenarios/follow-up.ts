import type { JobsWork } from '../jobs-run.js';

/** One poll, then a follow-up in the middle of the next wait; the read after it shows the end. */
export function followUpInWait(n: number, tag: string): JobsWork {
  return { tag, n, polling: { min: 10_000, max: 10_000, ratio: 0 }, activeMs: 1_500, followUpAfterMs: 3_000 };
}

/** A follow-up right after the start. */
export function followUpAtStart(n: number, tag: string): JobsWork {
  return { tag, n, polling: { min: 1_000, max: 1_000, ratio: 0 }, activeMs: 10, followUpAfterMs: 0 };
}

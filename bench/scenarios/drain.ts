import type { JobsWork } from '../jobs-run.js';

/** Jobs that start at once and end almost at once: throughput, and the cost of a job with one poll. */
export function drain(n: number, tag: string): JobsWork {
  // A job that is done in its create's answer would not be polled at all.
  return { tag, n, polling: { min: 1_000, max: 1_000, ratio: 0 }, activeMs: 10 };
}

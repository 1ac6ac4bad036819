import type { JobsWork } from '../jobs-run.js';

const ACTIVE_MS = 30_000;

/** Few jobs with many polls, one every 2 seconds: latency without saturation, and the cost of a further poll. */
export function steady(n: number, tag: string, activeMs = ACTIVE_MS): JobsWork {
  return { tag, n, polling: { min: 2_000, max: 2_000, ratio: 0 }, activeMs };
}

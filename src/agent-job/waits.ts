/**
 * The waits around calls to the upstream: before a call that had no success is made again, and before a check
 * can show a write in doubt (docs/guarantees.md). Pure, for workflow and activities alike; in milliseconds.
 */
import { MAX_RETRY_AFTER_MS } from '../contract.js';

/** Waits after failures double up to this bound. */
export const MAX_FAILING_WAIT_MS = 5 * 60_000;
/** No call follows a 429 sooner. */
const MIN_AFTER_429_MS = 1_000;
const FIRST_WAIT_THROTTLED_MS = 5_000;
const FIRST_WAIT_NOT_DELIVERED_MS = 1_000;
const MAX_SPREAD_MS = 30_000;
const MAX_HELD_WAIT_MS = 60_000;

/** Jitter of a wait that other jobs may have begun at the same time, as a share of it. */
const MAX_SPREAD_SHARE = 0.1;

/**
 * The wait after a 429: of a write without a queue, of a queue with a `Retry-After`, and of an export. `tries` counts
 * such answers in a row, from 1. A short `Retry-After` that is given again and again is doubled each time.
 */
export function throttledWaitMs(tries: number, retryAfterMs: number | undefined): number {
  if (retryAfterMs === undefined) return Math.min(doubled(FIRST_WAIT_THROTTLED_MS, tries), MAX_FAILING_WAIT_MS);
  const asked = Math.max(MIN_AFTER_429_MS, obeyedRetryAfterMs(retryAfterMs));
  return Math.max(asked, Math.min(doubled(asked, tries), MAX_FAILING_WAIT_MS));
}

/** How long a write waits before it asks whether it may try, if it was held alone, or again: `times` so far. */
export function heldWaitMs(times: number): number {
  return times === 1 ? 0 : Math.min(doubled(FIRST_WAIT_THROTTLED_MS, times), MAX_HELD_WAIT_MS);
}

/** Adds jitter to a wait that other jobs may have begun at the same time: at most a tenth, and 30 seconds. */
export function spreadWaitMs(waitMs: number, random: number): number {
  return waitMs + Math.round(Math.min(waitMs * MAX_SPREAD_SHARE, MAX_SPREAD_MS) * random);
}

/**
 * The wait before a resend: the write was not delivered, or is in doubt under policy `retry`. `tries` counts from 1.
 */
export function resendWaitMs(tries: number): number {
  return Math.min(doubled(FIRST_WAIT_NOT_DELIVERED_MS, tries), MAX_FAILING_WAIT_MS);
}

/** How long no poll follows a failed one: the time of `Retry-After`, and a second after a 429. */
export function pollPauseMs(poll: { kind: string; waitsFor?: string; retryAfterMs?: number }): number {
  const { waitsFor, retryAfterMs } = poll;
  return Math.max(waitsFor === 'rateLimit' ? MIN_AFTER_429_MS : 0, obeyedRetryAfterMs(retryAfterMs));
}

/** Doubles a first wait with each try, which counts from 1. */
export function doubled(firstMs: number, tries: number): number {
  return firstMs * 2 ** Math.min(Math.max(tries - 1, 0), 20);
}

/** What of a `Retry-After` is obeyed: at most an hour at a time. */
export function obeyedRetryAfterMs(ms: number | undefined): number {
  return Math.min(ms ?? 0, MAX_RETRY_AFTER_MS);
}

/** How long after its outcome was known a write has surely arrived or never will, by who knew the outcome. */
const ARRIVED_AFTER_MS = {
  /** This worker reset the connection, or had a response: only what is in the network may still arrive. */
  ownEnd: 30_000,
  /** The kernel of a worker that died goes on to deliver: Linux for up to 102 s. */
  lostWorker: 120_000,
};

/** A worker counts from when its attempt was scheduled. This covers the attempt's wait for a worker. */
const MIN_FROM_NOW_MS = 30_000;

/** By the server's time as an activity knows it. */
export function arrivedBy(judgedBy: keyof typeof ARRIVED_AFTER_MS, now: number): number {
  return Math.ceil(now + ARRIVED_AFTER_MS[judgedBy]);
}

/** By the workflow's time; `arrivedBy` is undefined if the worker did not report it. */
export function lookAfterOf(arrivedBy: number | undefined, now: number): number {
  return Math.max(arrivedBy ?? now + ARRIVED_AFTER_MS.lostWorker, now + MIN_FROM_NOW_MS);
}

/**
 * The waits before a call is made again that was refused or failed: after a 429 with or without `Retry-After`, for want
 * of a key, after a delivery that failed. How long a queue of requests waits without a `Retry-After` is decided in
 * workflows/request-queue/budget.ts. Pure; randomness is an argument. Times in milliseconds.
 */
import { MAX_RETRY_AFTER_MS } from '../contract.js';

/** Waits after failures double up to this bound. */
export const MAX_FAILING_WAIT_MS = 5 * 60_000;
/** No call follows a 429 sooner. */
const MIN_AFTER_429_MS = 1_000;
const FIRST_WAIT_THROTTLED_MS = 5_000;
const FIRST_WAIT_NOT_DELIVERED_MS = 1_000;
const MAX_SPREAD_MS = 30_000;
const MAX_KEY_WAIT_MS = 60_000;

/**
 * One that hears nothing from its queue asks again: rarely, because it costs history, and not after whole hours: what
 * an hour frees is given then. Where its queue is gone, workers tell it within minutes.
 */
const ASK_AGAIN_MS = 6.25 * 3_600_000;
/** Thousands may have begun to wait at once, and one queue answers them all. */
const ASK_AGAIN_SPREAD_MS = 0.5 * 3_600_000;
/** The queue has not told its place: it may not work. The wait doubles up to the one above. */
const FIRST_ASK_AGAIN_UNTOLD_MS = 5 * 60_000;
/** A turn may be so much later than it was expected: others of a higher priority may have joined since. */
const LATER_THAN_EXPECTED_MS = 3.5 * 3_600_000;
/** A turn that is expected later is not waited for: nobody knows so far ahead. */
const MAX_EXPECTED_MS = 7 * 24 * 3_600_000;

/** Jitter of a wait that many jobs may have begun at once, as a share of it. */
const MAX_SPREAD_SHARE = 0.1;

/**
 * The wait before a write that was refused for now (429) is sent again; `tries` counts the refusals in a row, from 1.
 * A short `Retry-After` that is given again and again is doubled each time.
 */
export function throttledWaitMs(tries: number, retryAfterMs: number | undefined): number {
  if (retryAfterMs === undefined) return Math.min(doubled(FIRST_WAIT_THROTTLED_MS, tries), MAX_FAILING_WAIT_MS);
  const told = Math.max(MIN_AFTER_429_MS, obeyedRetryAfterMs(retryAfterMs));
  return Math.max(told, Math.min(doubled(told, tries), MAX_FAILING_WAIT_MS));
}

/**
 * The wait before a write whose key was refused again, though a worker took it for accepted. `tries` counts the
 * refusals in a row, from 1.
 */
export function keyWaitMs(tries: number): number {
  return Math.min(doubled(FIRST_WAIT_THROTTLED_MS, tries), MAX_KEY_WAIT_MS);
}

/** Adds jitter to a wait that many jobs may have begun at once: at most a tenth, and `mostMs`. */
export function spreadWaitMs(waitMs: number, random: number, mostMs: number = MAX_SPREAD_MS): number {
  return waitMs + Math.round(Math.min(waitMs * MAX_SPREAD_SHARE, mostMs) * random);
}

/**
 * The wait before a write is sent again that was not delivered, or that is in doubt under policy `retry`; `tries` from
 * 1.
 */
export function resendWaitMs(tries: number): number {
  return Math.min(doubled(FIRST_WAIT_NOT_DELIVERED_MS, tries), MAX_FAILING_WAIT_MS);
}

/**
 * How long one waits for its turn before it asks again, with jitter; `waits` counts the waits without a turn, from 1.
 */
export function askAgainMs(
  waits: number,
  { position, expectedAt }: { position?: number; expectedAt?: string },
  now: number,
  random: number,
): number {
  const plannedMs = position === undefined ? doubled(FIRST_ASK_AGAIN_UNTOLD_MS, waits) : ASK_AGAIN_MS;
  const expectedMs = expectedAt === undefined ? 0 : Date.parse(expectedAt) - now + LATER_THAN_EXPECTED_MS;
  const waitMs = Math.max(Math.min(plannedMs, ASK_AGAIN_MS), Math.min(expectedMs, MAX_EXPECTED_MS));
  return spreadWaitMs(waitMs, random, ASK_AGAIN_SPREAD_MS);
}

/** How long no read follows a failed one: as long as `Retry-After` says, and a second after a 429. */
export function readPauseMs({ waitsFor, retryAfterMs }: { waitsFor?: string; retryAfterMs?: number }): number {
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

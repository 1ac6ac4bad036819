/**
 * How long a job waits: between polls, after a 429, before a write is sent again. Pure, for workflow and activities
 * alike; randomness is an argument. Times in milliseconds.
 */
import { MAX_RETRY_AFTER_MS, type JobRecord } from '../contract.js';

export interface PollPlan {
  minMs: number;
  maxMs: number;
  /** Share of the time since the last change that detection may be late. */
  ratio: number;
}

/** Jitter of ±10 %: jobs that started together are not polled together. */
const JITTER = 0.1;
/** Waits after failures double up to this bound. */
export const MAX_FAILING_WAIT_MS = 5 * 60_000;
/** A job is gone after so many answers 404 in a row, over this time. */
export const GONE_AFTER = { count: 5, ms: 60_000 } as const;
/** No call follows a 429 sooner. */
const MIN_AFTER_429_MS = 1_000;
const FIRST_WAIT_THROTTLED_MS = 5_000;
const FIRST_WAIT_NOT_DELIVERED_MS = 1_000;
const MAX_SPREAD_MS = 30_000;
const MAX_KEY_WAIT_MS = 60_000;
/** A turn to send, once given, is good for so long: the way from a worker over the server to another one. */
export const TURN_MS = 10_000;
/** Who waits for a turn asks again no sooner. */
export const NEXT_TURN_MS = 1_000;

interface PollSituation {
  sinceChangeMs: number;
  /** Failed reads in a row so far. */
  failures: number;
  retryAfterMs?: number | undefined;
  /** 0 to 1. */
  random: number;
}

/** The wait before the next read. */
export function pollWaitMs(plan: PollPlan, situation: PollSituation): number {
  const planned = clamp(plan.ratio * situation.sinceChangeMs, plan.minMs, plan.maxMs);
  const jittered = Math.min(planned * (1 - JITTER + 2 * JITTER * situation.random), plan.maxMs);
  const slowed = Math.max(jittered, Math.min(doubled(jittered, situation.failures), MAX_FAILING_WAIT_MS));
  return Math.round(Math.max(slowed, retryAfter(situation.retryAfterMs)));
}

/**
 * The wait before a write that was refused for now (429) is sent again; `tries` counts the refusals in a row, from 1.
 * A short `Retry-After` that is given again and again is doubled each time.
 */
export function throttledWaitMs(tries: number, retryAfterMs: number | undefined): number {
  if (retryAfterMs === undefined) return Math.min(doubled(FIRST_WAIT_THROTTLED_MS, tries), MAX_FAILING_WAIT_MS);
  const told = Math.max(MIN_AFTER_429_MS, retryAfter(retryAfterMs));
  return Math.max(told, Math.min(doubled(told, tries), MAX_FAILING_WAIT_MS));
}

/**
 * The wait before a write whose key was refused again, though a worker took it for accepted. `tries` counts the
 * refusals in a row, from 1.
 */
export function keyWaitMs(tries: number): number {
  return Math.min(doubled(FIRST_WAIT_THROTTLED_MS, tries), MAX_KEY_WAIT_MS);
}

/** Adds jitter to a wait that many jobs may have begun at once: at most a tenth, and half a minute. */
export function spreadWaitMs(waitMs: number, random: number): number {
  return waitMs + Math.round(Math.min(waitMs * JITTER, MAX_SPREAD_MS) * random);
}

/**
 * The wait before a write is sent again that was not delivered, or that is in doubt under policy `retry`; `tries` from
 * 1.
 */
export function resendWaitMs(tries: number): number {
  return Math.min(doubled(FIRST_WAIT_NOT_DELIVERED_MS, tries), MAX_FAILING_WAIT_MS);
}

/** How many reads the plan makes within a time: an estimate for a poll that was cut short. At most `most`. */
export function plannedPolls(plan: PollPlan, sinceChangeMs: number, durationMs: number, most: number): number {
  let reads = 0;
  for (let at = 0; at <= durationMs && reads < most; reads++) {
    at += pollWaitMs(plan, { sinceChangeMs: sinceChangeMs + at, failures: 0, random: 0.5 });
  }
  return reads;
}

/** Whether two records tell a caller the same. */
export function isSameRecord(a: JobRecord | null, b: JobRecord | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function doubled(firstMs: number, tries: number): number {
  return firstMs * 2 ** Math.min(Math.max(tries - 1, 0), 20);
}

function retryAfter(ms: number | undefined): number {
  return Math.min(ms ?? 0, MAX_RETRY_AFTER_MS);
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}

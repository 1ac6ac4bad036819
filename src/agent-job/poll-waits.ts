/**
 * Decides when a job is polled next, until when a worker may hold its polls, and which answers 404 make it `lost`.
 * Pure, for workflow and activities alike; randomness is an argument. Times in milliseconds.
 */
import type { JobRecord } from '../contract.js';
import type { Standing } from './ends.js';
import { doubled, MAX_FAILING_WAIT_MS, obeyedRetryAfterMs } from './waits.js';

/** The waits between two polls; see `PollingInput`. */
export interface PollPlan {
  minMs: number;
  maxMs: number;
  /** How late a change may be noticed, as a share of the time since the last change. */
  ratio: number;
}

/** Jitter of ±10 %: jobs that started together are not polled together. */
const JITTER = 0.1;
/** A job is lost after 5 answers 404 in a row, over this time; pages in place of answers must come for longer. */
export const LOST_AFTER = { count: 5, ms: 60_000, pagesMs: 3_600_000 } as const;

/** Answers 404 or 410 in a row. */
export interface NotFound {
  count: number;
  since: number;
  /** The job is lost, as the workflow knows: its run goes on for a write that waits. */
  isLost?: true;
  /** They were pages, which may come from something on the way: the last one, for people. */
  page?: string;
}

/** Whether these answers make the job lost. */
export function isLost(notFound: NotFound, now: number): boolean {
  return notFound.count >= LOST_AFTER.count && now - notFound.since >= lostAfterMs(notFound);
}

/** For how long such answers must come before the job is lost. */
export function lostAfterMs({ page }: Pick<NotFound, 'page'>): number {
  return page === undefined ? LOST_AFTER.ms : LOST_AFTER.pagesMs;
}

interface PollSituation {
  sinceChangeMs: number;
  /** Failed polls in a row so far. */
  failures: number;
  retryAfterMs?: number | undefined;
  /** An end that must stand. */
  standing?: Standing | undefined;
  /** How long until one more answer 404 makes the job lost; absent while none can. Failures delay no poll beyond it. */
  untilLostMs?: number | undefined;
  /** 0 to 1. */
  random: number;
}

/** The wait before the next poll. While an end stands, waits double, and one poll falls at the end of that time. */
export function pollWaitMs(plan: PollPlan, situation: PollSituation): number {
  const { standing, random, failures, untilLostMs = Infinity } = situation;
  const isStanding = standing !== undefined && standing.leftMs > 0;
  const wanted = isStanding ? plan.minMs + standing.forMs : plan.ratio * situation.sinceChangeMs;
  const planned = Math.min(Math.max(wanted, plan.minMs), plan.maxMs);
  const jittered = Math.min(planned * (1 - JITTER + 2 * JITTER * random), plan.maxMs);
  const longest = Math.min(MAX_FAILING_WAIT_MS, untilLostMs);
  const slowed = Math.max(jittered, Math.min(doubled(jittered, failures), longest));
  // It may have stood since the last poll began: the next one, if polls are answered, comes at once.
  const untilStood = isStanding || (standing && failures === 0) ? standing.leftMs : Infinity;
  return Math.round(Math.max(Math.min(slowed, untilStood), obeyedRetryAfterMs(situation.retryAfterMs)));
}

/** How long until one more answer 404 makes a job lost; undefined while more than one is missing. */
export function untilLostMs(notFound: NotFound | null, now: number): number | undefined {
  if (!notFound || notFound.isLost || notFound.count < LOST_AFTER.count - 1) return undefined;
  return notFound.since + lostAfterMs(notFound) - now;
}

/** Polls of one batch: few enough to show progress in history, many enough to cost nothing. */
export const POLLS_PER_BATCH = 120;
/** A batch ends early for a longer lease only after ten: a further batch costs more than some heartbeats. */
export const MIN_POLLS_PER_LEASE = 10;
/** Up to this wait a job is young: that its worker died must show soon. */
const YOUNG_WAIT_MS = 20_000;
/** How long before its end a heartbeat renews a lease. */
export function renewEarlyMs(leaseMs: number): number {
  return Math.min(15_000, 0.3 * leaseMs);
}

/**
 * For how long a worker may hold a job's polls without a sign of life, by the wait between them: a minute with all that
 * follows if waits are short, five minutes if they are long.
 */
export function pollLeaseMs(waitMs: number): number {
  return waitMs < YOUNG_WAIT_MS ? 50_000 : 290_000;
}

/** How many polls the plan makes within a time: an estimate for a batch that was cut short. At most `most`. */
export function plannedPolls(
  plan: PollPlan,
  { sinceChangeMs, standing }: Pick<PollSituation, 'sinceChangeMs' | 'standing'>,
  durationMs: number,
  most: number,
): number {
  let polls = 0;
  for (let at = 0; at <= durationMs && polls < most; polls++) {
    const isStanding = standing !== undefined && standing.leftMs > at;
    const stands = isStanding ? { forMs: standing.forMs + at, leftMs: standing.leftMs - at } : undefined;
    at += pollWaitMs(plan, { sinceChangeMs: sinceChangeMs + at, standing: stands, failures: 0, random: 0.5 });
  }
  return polls;
}

/** A batch ends at most every ten minutes because polls begin to fail: an upstream that flaps more is ridden out. */
export const TROUBLE_REPORTED_EVERY_MS = 10 * 60_000;

/** Polls fail from the second failure in a row on, or from the first that comes with a `Retry-After`. */
export function isTrouble(
  { kind, page, retryAfterMs = 0 }: { kind: string; page?: string; retryAfterMs?: number },
  failures: number,
): boolean {
  return (kind === 'failed' || page !== undefined) && (failures > 1 || retryAfterMs > 0);
}

/** Whether two records are the same to a caller. */
export function isSameRecord(a: JobRecord | null, b: JobRecord | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

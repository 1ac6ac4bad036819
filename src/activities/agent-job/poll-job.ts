/**
 * A poll batch: GETs at no cost in history, by the BENIGN-failure retry of samples-typescript/polling/infrequent. While
 * waits are short, one attempt polls several times; else the Temporal server keeps the waits between attempts. Temporal
 * retries for minutes, the activity for seconds, and nobody else retries a read.
 */
import { activityInfo, type ApplicationFailure } from '@temporalio/activity';
import { isTerminalStatus, shownStatus, type JobRecord } from '../../contract.js';
import { noMetrics, type Metrics } from '../metrics.js';
import { isSameRecord, LOST_AFTER, pollWaitMs, type PollPlan } from '../../agent-job/poll-plan.js';
import { MIN_AFTER_429_MS } from '../../agent-job/retry-waits.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';
import { ReadBurstLimit } from './read-burst-limit.js';
import { startServerClock, tryLater } from '../../temporal/activity-attempt.js';
import { PollingSlots, type PollingSlot } from './polling-slots.js';
import { PollProgress } from './poll-progress.js';

export interface PollJobInput {
  projectId: string;
  jobId: string;
  plan: PollPlan;
  /** The record that the workflow knows; the poll loop ends when the upstream shows another. */
  known: JobRecord | null;
  lastChangeAt: number;
  /** The poll loop ends at this time; null where no clock runs. */
  deadlineAt: number | null;
  /** A terminal status read before this time is read again after it. */
  settledAt: number;
  /** Whether a terminal status that the workflow knows already ends the poll loop. */
  endsAtTerminal: boolean;
  /** Failed reads in a row before this batch. */
  failures: number;
  /** How many 404 came in a row before this batch, and since when; null where the last response was another. */
  notFound: { count: number; since: number } | null;
  /** How many polls the batch may make. */
  maxReads: number;
  afterReset: boolean;
}

export type Reading =
  | { kind: 'record'; job: JobRecord }
  | { kind: 'unchanged' }
  /** A terminal status, read too soon after a follow-up to count. */
  | { kind: 'settling'; job: JobRecord }
  /** The upstream answered 404, `count` times in a row. */
  | { kind: 'notFound'; count: number }
  | { kind: 'failed'; reason: string; retryAfterMs?: number; waitsFor?: 'rateLimit' | 'key' | 'upstream' };

export interface PollJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  afterReset: boolean;
}

/**
 * How many reads may be under way in one worker: beyond it they wait, so that a hanging upstream leaves room for
 * writes.
 */
const MAX_CONCURRENT_READS = 4_000;

/** Longer waits are kept by the server, where they cost nothing and outlive any worker. */
const MAX_IN_ACTIVITY_WAIT_MS = 10_000;

/**
 * For how long one attempt may go on to read: with the last read's 20 seconds, a worker that died is noticed within a
 * minute.
 */
export const MAX_POLLING_BUDGET_MS = 25_000;

export interface PollJobOptions {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down. */
  shutdownSignal: AbortSignal;
  /** While waits are short, an attempt polls for so long, in milliseconds; 0: once. */
  pollingBudgetMs: number;
  metrics?: Pick<Metrics, 'endSeen'>;
}

/**
 * The activity `pollJob`: returns when something changed or ended, else fails retryably with the wait until the next
 * read.
 */
export function createPollJob({
  upstream,
  shutdownSignal,
  pollingBudgetMs,
  metrics = noMetrics,
}: PollJobOptions): (input: PollJobInput) => Promise<PollJobResult> {
  const slots = new PollingSlots(shutdownSignal);
  const pacing = new ReadBurstLimit();
  let inFlight = 0;

  /** Returns when a read may begin; throws where it must wait for a later attempt. */
  async function waitToPoll(slot: PollingSlot): Promise<void> {
    if (shutdownSignal.aborted) throw nextAttemptIn('the worker is shutting down', 1);
    if (inFlight >= MAX_CONCURRENT_READS) throw nextAttemptIn('this worker has too many reads under way', 2_000);
    const { kind, ms } = pacing.reserve();
    if (kind === 'later') throw nextAttemptIn('many reads are due at once', ms);
    if (ms > 0) await slots.pause(slot, ms);
    if (shutdownSignal.aborted) throw nextAttemptIn('the worker is shutting down', 1);
    if (slot.isSuperseded) throw nextAttemptIn('a later poll of this job has begun', 1);
  }

  async function readOnce(input: PollJobInput): Promise<JobResponse> {
    inFlight += 1;
    try {
      return await read(upstream, input, shutdownSignal);
    } finally {
      inFlight -= 1;
    }
  }

  async function pollUntilResult(input: PollJobInput, slot: PollingSlot): Promise<PollJobResult> {
    const now = startServerClock();
    const startedAt = now();
    const progress = new PollProgress(input);
    let lastWaitMs: number | undefined;
    for (;;) {
      await waitToPoll(slot).catch((error: unknown) => {
        progress.skip();
        progress.save();
        throw error;
      });
      const response = await readOnce(input).catch((error: unknown) => {
        progress.save();
        throw error;
      });
      progress.add(response.kind);
      const reading = resultOf(input, response, progress, now());
      if (reading && isEnd(reading)) metrics.endSeen((lastWaitMs ?? plannedWaitMs(input, now())) / 1_000);
      if (reading) return { reading, reads: progress.reads, failures: progress.failures, afterReset: input.afterReset };
      const wait = waitMs(input, response, progress.failures, now());
      const staysInActivity =
        response.kind === 'record' &&
        wait < MAX_IN_ACTIVITY_WAIT_MS &&
        now() + wait - startedAt <= pollingBudgetMs &&
        slots.hasRoom;
      lastWaitMs = wait;
      if (staysInActivity) await slots.pause(slot, wait);
      if (slot.isSuperseded) throw nextAttemptIn('a later poll of this job has begun', wait);
      if (staysInActivity && !shutdownSignal.aborted) continue;
      progress.save();
      throw nextAttemptIn(describeResponse(response, progress.failures), staysInActivity ? 1 : wait);
    }
  }

  return async (input) => {
    const name = [activityInfo().workflowExecution?.workflowId, input.projectId, input.jobId].join(' ');
    const slot = slots.begin(name);
    try {
      return await pollUntilResult(input, slot);
    } finally {
      slots.end(name, slot);
    }
  };
}

type JobResponse = Exclude<Reading, { kind: 'unchanged' | 'settling' | 'notFound' }> | { kind: 'notFound' };

async function read(upstream: Upstream, input: PollJobInput, signal: AbortSignal): Promise<JobResponse> {
  try {
    return { kind: 'record', job: await upstream.getJob(input, { signal }) };
  } catch (error) {
    if (signal.aborted) throw nextAttemptIn('the worker is shutting down', 1);
    if (error instanceof RejectedError && error.status === 404) return { kind: 'notFound' };
    if (error instanceof ReadFailedError || error instanceof RejectedError) {
      const retryAfterMs = error instanceof ReadFailedError ? pauseAfter(error) : undefined;
      return {
        kind: 'failed',
        reason: error.reason,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
        ...(error.status === 429 && { waitsFor: 'rateLimit' }),
        ...(error.status === 401 && { waitsFor: 'key' }),
      };
    }
    throw error;
  }
}

function pauseAfter({ status, retryAfterMs }: ReadFailedError): number | undefined {
  return status === 429 ? Math.max(MIN_AFTER_429_MS, retryAfterMs ?? 0) : retryAfterMs;
}

/** What the batch ends with after this response; null where the upstream is to be asked again. */
function resultOf(
  input: PollJobInput,
  response: JobResponse,
  { notFound, reads }: PollProgress,
  now: number,
): Reading | null {
  const isLastPoll = reads >= input.maxReads || (input.deadlineAt !== null && now >= input.deadlineAt);
  switch (response.kind) {
    case 'notFound': {
      // Each of those that it takes is told at once: a batch that is cancelled must not forget them.
      const isOneOfThose = notFound <= LOST_AFTER.count;
      const mustReport = input.notFound !== null && now - input.notFound.since >= LOST_AFTER.ms;
      return isLastPoll || isOneOfThose || mustReport ? { kind: 'notFound', count: notFound } : null;
    }
    case 'failed': {
      // A shorter one is no longer than the pause between any two reads.
      const mustWait = (response.retryAfterMs ?? 0) > MIN_AFTER_429_MS;
      return isLastPoll || mustWait || input.notFound !== null ? response : null;
    }
    case 'record': {
      const ends = input.endsAtTerminal && isTerminalStatus(response.job.status);
      if (ends && now < input.settledAt) return isLastPoll ? { kind: 'settling', job: response.job } : null;
      if (ends || input.notFound !== null || !isSameRecord(response.job, input.known)) return response;
      return isLastPoll ? { kind: 'unchanged' } : null;
    }
  }
}

function waitMs(input: PollJobInput, response: JobResponse, failures: number, now: number): number {
  const planned = pollWaitMs(input.plan, {
    sinceChangeMs: now - input.lastChangeAt,
    failures,
    retryAfterMs: response.kind === 'failed' ? response.retryAfterMs : undefined,
    random: Math.random(),
  });
  const isSettling = response.kind === 'record' && isTerminalStatus(response.job.status) && now < input.settledAt;
  const wanted = isSettling && input.endsAtTerminal ? input.settledAt - now : planned;
  return Math.min(wanted, input.deadlineAt === null ? Infinity : input.deadlineAt - now);
}

function isEnd(reading: Reading): boolean {
  return reading.kind === 'record' && isTerminalStatus(reading.job.status);
}

/** The wait before an attempt's first read, by the plan: the server kept it. */
function plannedWaitMs({ plan, lastChangeAt, failures }: PollJobInput, now: number): number {
  return pollWaitMs(plan, { sinceChangeMs: now - lastChangeAt, failures, random: 0.5 });
}

function describeResponse(response: JobResponse, failures: number): string {
  if (response.kind === 'record') return shownStatus(response.job.status);
  const what = response.kind === 'notFound' ? 'upstream answered 404' : response.reason;
  return failures > 1 ? `${what}, ${failures} times in a row` : what;
}

/** Ends this attempt by a retryable failure: it tells the server when the next one starts. */
function nextAttemptIn(why: string, waitMs: number): ApplicationFailure {
  return tryLater('StillPolling', why, 'next poll', waitMs);
}

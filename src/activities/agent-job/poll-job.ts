/**
 * The poll: GETs, at no cost in history. While waits are short, one attempt makes several; else the Temporal server keeps
 * the waits between attempts.
 */
import { activityInfo, ApplicationFailure } from '@temporalio/activity';
import { isTerminalStatus, shownStatus, type JobRecord } from '../../contract.js';
import { noMetrics, type Metrics } from '../metrics.js';
import { isSameRecord, GONE_AFTER, pollWaitMs, type PollPlan } from '../../agent-job/poll-plan.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';
import { ReadStarts } from './poll-pacing.js';
import { startServerClock } from '../../temporal/server-clock.js';
import { Stays, type Stay } from './polling-slots.js';
import { WatchMemory } from './poll-progress.js';

export interface WatchJobInput {
  projectId: string;
  jobId: string;
  plan: PollPlan;
  /** The record that the workflow knows; the watch ends when the upstream shows another. */
  known: JobRecord | null;
  lastChangeAt: number;
  /** The watch ends at this time; null where no clock runs. */
  deadlineAt: number | null;
  /** A terminal status read before this time is read again after it. */
  settledAt: number;
  /** Whether a terminal status that the workflow knows already ends the watch. */
  endsAtTerminal: boolean;
  /** Failed reads in a row before this watch. */
  failures: number;
  /** How many 404 came in a row before this watch, and since when; null where the last answer was another. */
  missing: { count: number; since: number } | null;
  /** The watch's share of reads. */
  maxReads: number;
  afterReset: boolean;
}

export type Reading =
  | { kind: 'record'; job: JobRecord }
  | { kind: 'unchanged' }
  /** A terminal status, read too soon after a follow-up to count. */
  | { kind: 'settling'; job: JobRecord }
  /** The upstream answered 404, `count` times in a row. */
  | { kind: 'missing'; count: number }
  | { kind: 'failed'; reason: string; retryAfterMs?: number; waitsFor?: 'rateLimit' | 'key' | 'upstream' };

export interface WatchJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  afterReset: boolean;
}

/** A shorter `Retry-After` is no longer than the pause between any two reads; and nobody reads sooner after a 429. */
const SHORT_RETRY_AFTER_MS = 1_000;

/** How many reads may be under way in one worker: beyond it they wait, so that a hanging upstream leaves room for writes. */
const MOST_READS_UNDER_WAY = 4_000;

/** Longer waits are kept by the server, where they cost nothing and outlive any worker. */
const SHORT_WAIT_MS = 10_000;

/** For how long one attempt may go on to read: with the last read's 20 seconds, a worker that died is noticed within a minute. */
export const LONGEST_STAY_MS = 25_000;

export interface WatchJobOptions {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down. */
  shutdownSignal: AbortSignal;
  /** While waits are short, an attempt reads for so long; 0: once. */
  stayMs: number;
  metrics?: Pick<Metrics, 'endSeen'>;
}

/** The activity `watchJob`: returns when something changed or ended, else fails retryably with the wait until the next read. */
export function createWatchJob({
  upstream,
  shutdownSignal,
  stayMs,
  metrics = noMetrics,
}: WatchJobOptions): (input: WatchJobInput) => Promise<WatchJobResult> {
  const stays = new Stays(shutdownSignal);
  const starts = new ReadStarts();
  let underWay = 0;

  /** Returns when a read may begin; throws where it must wait for a later attempt. */
  async function turnToRead(stay: Stay): Promise<void> {
    if (shutdownSignal.aborted) throw lookAgain('the worker is shutting down', 1);
    if (underWay >= MOST_READS_UNDER_WAY) throw lookAgain('this worker has too many reads under way', 2_000);
    const { kind, ms } = starts.reserve();
    if (kind === 'later') throw lookAgain('many reads are due at once', ms);
    if (ms > 0) await stays.pause(stay, ms);
    if (shutdownSignal.aborted) throw lookAgain('the worker is shutting down', 1);
    if (stay.isOver) throw lookAgain('a later watch of this job has begun', 1);
  }

  async function readOnce(input: WatchJobInput): Promise<Answer> {
    underWay += 1;
    try {
      return await read(upstream, input, shutdownSignal);
    } finally {
      underWay -= 1;
    }
  }

  async function readUntilEnd(input: WatchJobInput, stay: Stay): Promise<WatchJobResult> {
    const now = startServerClock();
    const startedAt = now();
    const memory = new WatchMemory(input);
    let lastWaitMs: number | undefined;
    for (;;) {
      await turnToRead(stay).catch((error: unknown) => {
        memory.skip();
        memory.keep();
        throw error;
      });
      const answer = await readOnce(input).catch((error: unknown) => {
        memory.keep();
        throw error;
      });
      memory.add(answer.kind);
      const reading = endOfWatch(input, answer, memory, now());
      if (reading && isEnd(reading)) metrics.endSeen((lastWaitMs ?? plannedWaitMs(input, now())) / 1_000);
      if (reading) return { reading, reads: memory.reads, failures: memory.failures, afterReset: input.afterReset };
      const wait = waitMs(input, answer, memory.failures, now());
      const mayStay =
        answer.kind === 'record' && wait < SHORT_WAIT_MS && now() + wait - startedAt <= stayMs && stays.hasRoom;
      lastWaitMs = wait;
      if (mayStay) await stays.pause(stay, wait);
      if (stay.isOver) throw lookAgain('a later watch of this job has begun', wait);
      if (mayStay && !shutdownSignal.aborted) continue;
      memory.keep();
      throw lookAgain(describe(answer, memory.failures), mayStay ? 1 : wait);
    }
  }

  return async (input) => {
    const name = [activityInfo().workflowExecution?.workflowId, input.projectId, input.jobId].join(' ');
    const stay = stays.begin(name);
    try {
      return await readUntilEnd(input, stay);
    } finally {
      stays.end(name, stay);
    }
  };
}

type Answer = Exclude<Reading, { kind: 'unchanged' | 'settling' | 'missing' }> | { kind: 'notFound' };

async function read(upstream: Upstream, input: WatchJobInput, signal: AbortSignal): Promise<Answer> {
  try {
    return { kind: 'record', job: await upstream.getJob(input, { signal }) };
  } catch (error) {
    if (signal.aborted) throw lookAgain('the worker is shutting down', 1);
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
  return status === 429 ? Math.max(SHORT_RETRY_AFTER_MS, retryAfterMs ?? 0) : retryAfterMs;
}

/** How the watch ends with this answer; null where the upstream is to be asked again. */
function endOfWatch(
  input: WatchJobInput,
  answer: Answer,
  { missing, reads }: WatchMemory,
  now: number,
): Reading | null {
  const isLastLook = reads >= input.maxReads || (input.deadlineAt !== null && now >= input.deadlineAt);
  switch (answer.kind) {
    case 'notFound': {
      // Each of those that it takes is told at once: a watch that is cut short must not forget them.
      const isOneOfThose = missing <= GONE_AFTER.count;
      const isLost = input.missing !== null && now - input.missing.since >= GONE_AFTER.ms;
      return isLastLook || isOneOfThose || isLost ? { kind: 'missing', count: missing } : null;
    }
    case 'failed': {
      const mustWait = (answer.retryAfterMs ?? 0) > SHORT_RETRY_AFTER_MS;
      return isLastLook || mustWait || input.missing !== null ? answer : null;
    }
    case 'record': {
      const ends = input.endsAtTerminal && isTerminalStatus(answer.job.status);
      if (ends && now < input.settledAt) return isLastLook ? { kind: 'settling', job: answer.job } : null;
      if (ends || input.missing !== null || !isSameRecord(answer.job, input.known)) return answer;
      return isLastLook ? { kind: 'unchanged' } : null;
    }
  }
}

function waitMs(input: WatchJobInput, answer: Answer, failures: number, now: number): number {
  const planned = pollWaitMs(input.plan, {
    sinceChangeMs: now - input.lastChangeAt,
    failures,
    retryAfterMs: answer.kind === 'failed' ? answer.retryAfterMs : undefined,
    random: Math.random(),
  });
  const isSettling = answer.kind === 'record' && isTerminalStatus(answer.job.status) && now < input.settledAt;
  const wanted = isSettling && input.endsAtTerminal ? input.settledAt - now : planned;
  return Math.min(wanted, input.deadlineAt === null ? Infinity : input.deadlineAt - now);
}

function isEnd(reading: Reading): boolean {
  return reading.kind === 'record' && isTerminalStatus(reading.job.status);
}

/** The wait before an attempt's first read, by the plan: the server kept it. */
function plannedWaitMs({ plan, lastChangeAt, failures }: WatchJobInput, now: number): number {
  return pollWaitMs(plan, { sinceChangeMs: now - lastChangeAt, failures, random: 0.5 });
}

function describe(answer: Answer, failures: number): string {
  if (answer.kind === 'record') return shownStatus(answer.job.status);
  const what = answer.kind === 'notFound' ? 'upstream answered 404' : answer.reason;
  return failures > 1 ? `${what}, ${failures} times in a row` : what;
}

/** The failure that makes the server try the attempt again after a wait; its message is what the web UI shows meanwhile (no stack: nothing is wrong). */
function lookAgain(why: string, delayMs: number): ApplicationFailure {
  const delay = Math.max(1, Math.round(delayMs));
  const failure = ApplicationFailure.create({
    message: `${why}, next look in ${Math.max(1, Math.round(delay / 1_000))} s`,
    type: 'StillWatching',
    category: 'BENIGN',
    nextRetryDelay: delay,
  });
  failure.stack = '';
  return failure;
}

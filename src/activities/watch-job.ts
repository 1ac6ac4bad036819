/** The poll: one GET per attempt; the Temporal server keeps the waits between attempts, at no cost in history. */
import { activityInfo, ApplicationFailure, Context } from '@temporalio/activity';
import { isTerminalStatus, type JobRecord } from '../contract.js';
import { isSameRecord, LOST_AFTER, readWaitMs, type PollPlan } from '../poll-plan.js';
import { ReadFailedError, RejectedError } from '../upstream/errors.js';
import type { Upstream } from '../upstream/upstream.js';
import { startServerClock } from './server-clock.js';

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
  resetRun: boolean;
}

export type Reading =
  | { kind: 'record'; job: JobRecord }
  | { kind: 'unchanged' }
  /** A terminal status, read too soon after a follow-up to count. */
  | { kind: 'settling'; job: JobRecord }
  /** The upstream answered 404, `count` times in a row. */
  | { kind: 'missing'; count: number }
  | { kind: 'failed'; reason: string; retryAfterMs?: number };

export interface WatchJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  resetRun: boolean;
}

/** A shorter `Retry-After` is no longer than the pause between any two reads. */
const SHORT_RETRY_AFTER_MS = 1_000;

/** How many reads may be under way in one worker: beyond it they wait, so that a hanging upstream leaves room for writes. */
const MOST_READS_UNDER_WAY = 4_000;

/** The activity `watchJob`: returns when something changed or ended, else fails retryably with the wait until the next read. */
export function createWatchJob(
  upstream: Upstream,
  shutdownSignal: AbortSignal,
): (input: WatchJobInput) => Promise<WatchJobResult> {
  let underWay = 0;
  return async (input) => {
    const now = startServerClock();
    if (underWay >= MOST_READS_UNDER_WAY) throw lookAgain('this worker has too many reads under way', 2_000);
    underWay += 1;
    try {
      return judge(input, await read(upstream, input, shutdownSignal), now());
    } finally {
      underWay -= 1;
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
      return { kind: 'failed', reason: error.reason, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
    }
    throw error;
  }
}

function pauseAfter({ status, retryAfterMs }: ReadFailedError): number | undefined {
  return status === 429 ? Math.max(SHORT_RETRY_AFTER_MS, retryAfterMs ?? 0) : retryAfterMs;
}

/** What the attempts of one watch tell each other. */
interface Memory {
  failures: number;
  missing: number;
}

/** Decides whether an answer ends the watch (returns) or the upstream is to be asked again (throws, with the wait). */
function judge(input: WatchJobInput, answer: Answer, now: number): WatchJobResult {
  const { attempt, heartbeatDetails } = activityInfo();
  const memory = (heartbeatDetails as Memory | undefined) ?? {
    failures: input.failures,
    missing: input.missing?.count ?? 0,
  };
  const failures = answer.kind === 'record' ? 0 : memory.failures + 1;
  const missing = answer.kind === 'notFound' ? memory.missing + 1 : 0;
  const reading = endOfWatch(input, answer, { missing, attempt, now });
  if (reading) return { reading, reads: attempt, failures, resetRun: input.resetRun };
  // A heartbeat costs an action: only where there is something to remember.
  if (failures !== memory.failures || missing !== memory.missing) {
    Context.current().heartbeat({ failures, missing } satisfies Memory);
  }
  throw lookAgain(describe(answer, failures), waitMs(input, answer, failures, now));
}

function endOfWatch(
  input: WatchJobInput,
  answer: Answer,
  { missing, attempt, now }: { missing: number; attempt: number; now: number },
): Reading | null {
  const isLastLook = attempt >= input.maxReads || (input.deadlineAt !== null && now >= input.deadlineAt);
  switch (answer.kind) {
    case 'notFound': {
      // Each of those that it takes is told at once: a watch that is cut short must not forget them.
      const isOneOfThose = missing <= LOST_AFTER.count;
      const isLost = input.missing !== null && now - input.missing.since >= LOST_AFTER.ms;
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
  const planned = readWaitMs(input.plan, {
    sinceChangeMs: now - input.lastChangeAt,
    failures,
    retryAfterMs: answer.kind === 'failed' ? answer.retryAfterMs : undefined,
    random: Math.random(),
  });
  const isSettling = answer.kind === 'record' && isTerminalStatus(answer.job.status) && now < input.settledAt;
  const wanted = isSettling && input.endsAtTerminal ? input.settledAt - now : planned;
  return Math.min(wanted, input.deadlineAt === null ? Infinity : input.deadlineAt - now);
}

function describe(answer: Answer, failures: number): string {
  if (answer.kind === 'record') return answer.job.status.slice(0, 64);
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

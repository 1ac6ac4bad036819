/**
 * One attempt of a poll batch: what it is asked, what it knows of those before it, what a read comes to, and when the
 * next one is due. Times and waits in milliseconds.
 */
import { createHash } from 'node:crypto';
import type { ApplicationFailure, Info } from '@temporalio/activity';
import { isTerminalStatus, shownStatus, type JobRecord } from '../../contract.js';
import type { Metrics } from '../metrics.js';
import {
  isLongerPause,
  isWorse,
  LOST_AFTER,
  MIN_READS_PER_LEASE,
  pollLeaseMs,
  pollWaitMs,
  readHealth,
  untilLostMs,
  type PollPlan,
  type ReadHealth,
} from '../../agent-job/poll-plan.js';
import { readPauseMs } from '../../agent-job/retry-waits.js';
import { startClock, tryLater, type AttemptClock } from '../../temporal/activity-attempt.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';
import { PollProgress } from './poll-progress.js';

/** What a workflow asks a poll batch. */
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
  /** What the workflow knows of the reads; the batch ends when it finds another health. */
  health: ReadHealth;
  /** For how long the upstream asked to be left alone, as the workflow knows; the batch ends when that is longer. */
  pauseMs?: number | undefined;
  /** It does so from this time on: before it rides out what changes. */
  healthToldFrom: number;
  /** How many 404 came in a row before this batch, and since when; null where the last response was another. */
  notFound: { count: number; since: number } | null;
  /** How many polls the batch may make. */
  maxReads: number;
}

/** What a read has shown. */
export type Reading =
  | { kind: 'record'; job: JobRecord }
  | { kind: 'unchanged' }
  /** A terminal status, read too soon after a follow-up to count. */
  | { kind: 'settling'; job: JobRecord }
  /** The upstream answered 404, `count` times in a row. */
  | { kind: 'notFound'; count: number }
  | { kind: 'failed'; reason: string; retryAfterMs?: number; waitsFor?: 'rateLimit' | 'key' | 'upstream' };

/** What the workflow is told. */
export interface PollJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  /** Whether the last read began at the deadline, or later. */
  isAtDeadline: boolean;
}

interface PollRunOptions {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down. */
  shutdownSignal: AbortSignal;
  metrics: Pick<Metrics, 'endSeen'>;
  /** For how long the batch is leased with each heartbeat; absent where each read is an attempt. */
  leaseMs?: number | undefined;
}

/** What follows a read: the batch ends, or another read is due after a wait. */
export type NextStep =
  { kind: 'end'; result: PollJobResult } | { kind: 'wait'; ms: number; why: string; isHealthy: boolean };

export class PollRun {
  readonly progress: PollProgress;
  readonly #clock = startClock();
  readonly #beganAt = this.#clock.monotonic();
  readonly #input: Asked;
  readonly #known: string | null;
  readonly #options: PollRunOptions;
  /** When the last read here ended. */
  #readAt: number | null = null;
  /** What the last read showed, for people who look at a heartbeat. */
  shown = '';

  constructor({ known, ...input }: PollJobInput, info: Info, options: PollRunOptions) {
    this.#input = input;
    this.#known = known && fingerprint(known);
    this.progress = new PollProgress(input, info);
    this.#options = options;
  }

  /** How long the attempt has lasted. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#beganAt;
  }

  /** Reads once. Throws, retryably, where the worker shuts down. */
  async read(): Promise<NextStep> {
    const { progress } = this;
    const input = this.#input;
    const { upstream, shutdownSignal, metrics } = this.#options;
    const waitedMs = this.#readAt === null ? null : this.#clock.monotonic() - this.#readAt;
    const begunAt = this.#clock.server();
    const response = await read(upstream, input, shutdownSignal);
    this.#readAt = this.#clock.monotonic();
    progress.add(response.kind);
    const times = { begunAt, now: this.#clock.server() };
    const isKnown = response.kind === 'record' && fingerprint(response.job) === this.#known;
    const isLastRead = this.#isLastRead(response, times);
    const reading = resultOf(input, response, { progress, isKnown, isLastRead, ...times });
    if (reading && isEnd(reading)) metrics.endSeen((waitedMs ?? plannedWaitMs(input, begunAt)) / 1_000);
    if (reading) return { kind: 'end', result: this.#result(reading, begunAt) };
    this.shown = describeResponse(response, progress.saved.failures);
    const ms = waitMs(input, response, progress, times);
    return {
      kind: 'wait',
      ms,
      // The web UI shows it as the last failure of the activity.
      why: response.kind === 'record' ? `nothing is wrong: the job is ${this.shown}` : this.shown,
      isHealthy: response.kind === 'record' && !isClockDoubtful(input, this.#clock),
    };
  }

  #isLastRead({ kind }: JobResponse, { begunAt, now }: ReadTimes): boolean {
    const { progress } = this;
    const input = this.#input;
    const isOver = progress.reads >= input.maxReads || this.#isAtDeadline(begunAt);
    return isOver || (kind === 'record' && this.#deservesLongerLease(now));
  }

  #isAtDeadline(begunAt: number): boolean {
    const { deadlineAt } = this.#input;
    return deadlineAt !== null && begunAt >= deadlineAt;
  }

  /** The waits have become so long that the next batch can have a longer lease. */
  #deservesLongerLease(now: number): boolean {
    const { leaseMs } = this.#options;
    // If another release or an operator set the lease, the next one may be no longer: batches would end for ever.
    if (leaseMs !== pollLeaseMs(0) || this.progress.reads < MIN_READS_PER_LEASE) return false;
    // As the workflow chooses the next one.
    return pollLeaseMs(plannedWaitMs({ ...this.#input, failures: 0 }, now)) > leaseMs;
  }

  #result(reading: Reading, begunAt: number): PollJobResult {
    const { reads, saved } = this.progress;
    return { reading, reads, failures: saved.failures, isAtDeadline: this.#isAtDeadline(begunAt) };
  }
}

/** A record takes up to 64 KiB, and a worker holds thousands: of what the workflow knows a fingerprint is kept. */
type Asked = Omit<PollJobInput, 'known'>;

type JobResponse = Exclude<Reading, { kind: 'unchanged' | 'settling' | 'notFound' }> | { kind: 'notFound' };

async function read(upstream: Upstream, input: Asked, signal: AbortSignal): Promise<JobResponse> {
  try {
    return { kind: 'record', job: await upstream.getJob(input, { signal }) };
  } catch (error) {
    if (signal.aborted) throw nextAttemptIn('the worker is shutting down', 1);
    if (error instanceof RejectedError && error.status === 404) return { kind: 'notFound' };
    if (error instanceof ReadFailedError || error instanceof RejectedError) {
      const retryAfterMs = error instanceof ReadFailedError ? error.retryAfterMs : undefined;
      return {
        kind: 'failed',
        reason: error.reason,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
        ...(error.status === 429 && { waitsFor: 'rateLimit' }),
        ...((error.status === 401 || error.status === 403) && { waitsFor: 'key' }),
      };
    }
    throw error;
  }
}

/**
 * The upstream may have looked at the job at any time in between. So what a read shows counts as seen when it began;
 * waits begin when it was answered.
 */
interface ReadTimes {
  begunAt: number;
  now: number;
}

interface ReadFacts extends ReadTimes {
  progress: PollProgress;
  /** The workflow knows the record that was read. */
  isKnown: boolean;
  isLastRead: boolean;
}

/** What the batch ends with after this response; null where the upstream is to be asked again. */
function resultOf(
  input: Asked,
  response: JobResponse,
  { progress, isKnown, isLastRead, begunAt, now }: ReadFacts,
): Reading | null {
  const mayTellHealth = now >= input.healthToldFrom;
  switch (response.kind) {
    case 'notFound': {
      // Each of those that it takes is told at once: a batch that is cancelled must not forget them.
      const { notFound } = progress.saved;
      const isOneOfThose = notFound <= LOST_AFTER.count;
      // By the moment at which the workflow takes it in: its own time decides.
      const mustReport = input.notFound !== null && now - input.notFound.since >= LOST_AFTER.ms;
      return isLastRead || isOneOfThose || mustReport ? { kind: 'notFound', count: notFound } : null;
    }
    case 'failed': {
      const health = readHealth(response, progress.saved.failures);
      const pauseMs = readPauseMs(response);
      const isNews = mayTellHealth && (isWorse(health, input.health) || isLongerPause(health, pauseMs, input.pauseMs));
      // No last read at the deadline goes against a `Retry-After`.
      const isOver = now + pauseMs >= (input.deadlineAt ?? Infinity);
      return isLastRead || isNews || isOver || input.notFound !== null ? response : null;
    }
    case 'record': {
      const ends = input.endsAtTerminal && isTerminalStatus(response.job.status);
      if (ends && begunAt < input.settledAt) return isLastRead ? { kind: 'settling', job: response.job } : null;
      if (ends || input.notFound !== null || !isKnown) return response;
      return isLastRead || (mayTellHealth && input.health !== 'good') ? { kind: 'unchanged' } : null;
    }
  }
}

function waitMs(input: Asked, response: JobResponse, progress: PollProgress, { begunAt, now }: ReadTimes): number {
  const { failures, notFound: count } = progress.saved;
  const notFound = input.notFound && { ...input.notFound, count };
  const planned = pollWaitMs(input.plan, {
    sinceChangeMs: now - input.lastChangeAt,
    failures,
    untilLostMs: untilLostMs(notFound, now),
    retryAfterMs: response.kind === 'failed' ? readPauseMs(response) : undefined,
    random: Math.random(),
  });
  const isSettling = response.kind === 'record' && isTerminalStatus(response.job.status) && begunAt < input.settledAt;
  const wanted = isSettling && input.endsAtTerminal ? Math.max(0, input.settledAt - now) : planned;
  return Math.min(wanted, input.deadlineAt === null ? Infinity : Math.max(0, input.deadlineAt - now));
}

function isEnd(reading: Reading): boolean {
  return reading.kind === 'record' && isTerminalStatus(reading.job.status);
}

/** The wait before an attempt's first read, by the plan: the server kept it. */
function plannedWaitMs({ plan, lastChangeAt, failures }: Asked, now: number): number {
  return pollWaitMs(plan, { sinceChangeMs: now - lastChangeAt, failures, random: 0.5 });
}

/**
 * The deadline has passed by this machine's clock and not by the server's time as it is known here, which is behind
 * where the attempt waited long for a worker or the machine was suspended. Another attempt knows it anew.
 */
function isClockDoubtful({ deadlineAt }: Asked, clock: AttemptClock): boolean {
  return deadlineAt !== null && clock.server() < deadlineAt && clock.late() >= deadlineAt;
}

/** Two records have the same one where they tell a caller the same. */
function fingerprint(job: JobRecord): string {
  return createHash('sha256').update(JSON.stringify(job)).digest('base64');
}

function describeResponse(response: JobResponse, failures: number): string {
  if (response.kind === 'record') return shownStatus(response.job.status);
  const what = response.kind === 'notFound' ? 'upstream answered 404' : response.reason;
  return failures > 1 ? `${what}, ${failures} times in a row` : what;
}

/** The retryable failure that ends an attempt: it tells the server when the next one starts. */
export function nextAttemptIn(why: string, waitMs: number): ApplicationFailure {
  return tryLater('StillPolling', why, 'next poll', waitMs);
}

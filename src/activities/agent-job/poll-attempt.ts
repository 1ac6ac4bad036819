/**
 * One attempt of a poll batch. Decides after each poll whether the batch ends, and otherwise when the next poll is due.
 * Times and waits in milliseconds.
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
} from '../../agent-job/poll-waits.js';
import { readPauseMs } from '../../agent-job/waits.js';
import { startClock, tryLater } from '../../temporal/activity-attempt.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';

/** What a workflow asks a poll batch. */
export interface PollJobInput {
  projectId: string;
  jobId: string;
  plan: PollPlan;
  /** The record that the workflow knows; the batch ends when the upstream shows another. */
  known: JobRecord | null;
  lastChangeAt: number;
  /** The batch ends at this time; null if no clock runs. */
  deadlineAt: number | null;
  /** A terminal status read before this time is read again after it. */
  settledAt: number;
  /** Whether a terminal status that the workflow knows already ends the batch. */
  endsAtTerminal: boolean;
  /** Failed reads in a row before this batch. */
  failures: number;
  /** What the workflow knows of the reads; the batch ends when it finds another health. */
  health: ReadHealth;
  /** For how long the upstream asked to be left alone, as the workflow knows; the batch ends when that is longer. */
  pauseMs?: number | undefined;
  /** Before this time the batch does not end for its health. */
  healthReportsFrom: number;
  /** How many 404 came in a row before this batch, and since when; null if the last response was another. */
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

/** What a batch reports to its workflow. */
export interface PollJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  /** Whether the last read began at the deadline, or later. */
  isAtDeadline: boolean;
}

/** What an attempt needs of its worker. */
interface PollAttemptOptions {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down. */
  shutdownSignal: AbortSignal;
  metrics: Pick<Metrics, 'endSeen'>;
  /** For how long the batch is leased with each heartbeat; absent if each read is an attempt. */
  leaseMs?: number | undefined;
}

/** What follows a read: the batch ends, or another read is due after a wait. */
export type NextStep =
  { kind: 'end'; result: PollJobResult } | { kind: 'wait'; ms: number; why: string; isHealthy: boolean };

type JobResponse = Exclude<Reading, { kind: 'unchanged' | 'settling' | 'notFound' }> | { kind: 'notFound' };

/** An attempt: it reads once at each call. */
export class PollAttempt {
  readonly progress: PollProgress;
  readonly #clock = startClock();
  readonly #beganAt = this.#clock.monotonic();
  readonly #input: Omit<PollJobInput, 'known'>;
  /** A record takes up to 64 KiB, and a worker holds thousands: only its fingerprint is kept. */
  readonly #known: string | null;
  readonly #options: PollAttemptOptions;
  /** When the last read here ended. */
  #readAt: number | null = null;
  /** What the last read showed, for people who see a heartbeat. */
  shown = '';

  constructor({ known, ...input }: PollJobInput, info: Info, options: PollAttemptOptions) {
    this.#input = input;
    this.#known = known && fingerprint(known);
    this.progress = new PollProgress(input, info);
    this.#options = options;
  }

  /** How long the attempt has lasted. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#beganAt;
  }

  /** Reads once. Throws, retryably, if the worker shuts down. */
  async read(): Promise<NextStep> {
    const { progress } = this;
    const { upstream, shutdownSignal, metrics } = this.#options;
    const waitedMs = this.#readAt === null ? null : this.#clock.monotonic() - this.#readAt;
    // The upstream may have looked up the job at any time of the read. So what it shows counts as seen at the begin.
    const begunAt = this.#clock.server();
    const response = await read(upstream, this.#input, shutdownSignal);
    this.#readAt = this.#clock.monotonic();
    progress.add(response.kind);
    const reading = this.#endOf(response, begunAt);
    if (reading) {
      const isEnd = reading.kind === 'record' && isTerminalStatus(reading.job.status);
      if (isEnd) metrics.endSeen((waitedMs ?? this.#plannedWaitMs(begunAt)) / 1_000);
      const { reads, saved } = progress;
      const isAtDeadline = this.#isAtDeadline(begunAt);
      return { kind: 'end', result: { reading, reads, failures: saved.failures, isAtDeadline } };
    }
    const isRecord = response.kind === 'record';
    this.shown = describeResponse(response, progress.saved.failures);
    // The web UI shows it as the last failure of the activity.
    const why = isRecord ? `nothing is wrong: the job is ${this.shown}` : this.shown;
    return { kind: 'wait', ms: this.#waitMs(response, begunAt), why, isHealthy: isRecord && !this.#isClockDoubtful };
  }

  /** What the batch ends with after this response; null if the upstream is asked again. */
  #endOf(response: JobResponse, begunAt: number): Reading | null {
    const { progress } = this;
    const input = this.#input;
    const now = this.#clock.server();
    const isLastRead = progress.reads >= input.maxReads || this.#isAtDeadline(begunAt);
    const mayReportHealth = now >= input.healthReportsFrom;
    switch (response.kind) {
      case 'notFound': {
        // The workflow counts these at once: a batch that is cancelled must not forget them.
        const { notFound } = progress.saved;
        const isOneOfThose = notFound <= LOST_AFTER.count;
        // The workflow decides by the time at which it takes them in.
        const mustReport = input.notFound !== null && now - input.notFound.since >= LOST_AFTER.ms;
        return isLastRead || isOneOfThose || mustReport ? { kind: 'notFound', count: notFound } : null;
      }
      case 'failed': {
        const health = readHealth(response, progress.saved.failures);
        const pauseMs = readPauseMs(response);
        const isChange = isWorse(health, input.health) || isLongerPause(health, pauseMs, input.pauseMs);
        // No last read at the deadline goes against a `Retry-After`.
        const isOver = now + pauseMs >= (input.deadlineAt ?? Infinity);
        return isLastRead || (mayReportHealth && isChange) || isOver || input.notFound !== null ? response : null;
      }
      case 'record': {
        const isLast = isLastRead || this.#deservesLongerLease(now);
        const ends = input.endsAtTerminal && isTerminalStatus(response.job.status);
        if (ends && begunAt < input.settledAt) return isLast ? { kind: 'settling', job: response.job } : null;
        const isKnown = fingerprint(response.job) === this.#known;
        if (ends || input.notFound !== null || !isKnown) return response;
        return isLast || (mayReportHealth && input.health !== 'good') ? { kind: 'unchanged' } : null;
      }
    }
  }

  #waitMs(response: JobResponse, begunAt: number): number {
    const { plan, lastChangeAt, settledAt, deadlineAt, endsAtTerminal, ...input } = this.#input;
    const { failures, notFound: count } = this.progress.saved;
    const now = this.#clock.server();
    const planned = pollWaitMs(plan, {
      sinceChangeMs: now - lastChangeAt,
      failures,
      untilLostMs: untilLostMs(input.notFound && { ...input.notFound, count }, now),
      retryAfterMs: response.kind === 'failed' ? readPauseMs(response) : undefined,
      random: Math.random(),
    });
    const isEnd = response.kind === 'record' && isTerminalStatus(response.job.status);
    const wanted = isEnd && begunAt < settledAt && endsAtTerminal ? Math.max(0, settledAt - now) : planned;
    return Math.min(wanted, deadlineAt === null ? Infinity : Math.max(0, deadlineAt - now));
  }

  /** The wait before an attempt's first read, by the plan: the server kept it. */
  #plannedWaitMs(now: number, failures = this.#input.failures): number {
    const { plan, lastChangeAt } = this.#input;
    return pollWaitMs(plan, { sinceChangeMs: now - lastChangeAt, failures, random: 0.5 });
  }

  #isAtDeadline(begunAt: number): boolean {
    return begunAt >= (this.#input.deadlineAt ?? Infinity);
  }

  /** The waits have become so long that the next batch can have a longer lease. */
  #deservesLongerLease(now: number): boolean {
    const { leaseMs } = this.#options;
    // If another release or an operator set the lease, the next one may be no longer: batches would end for ever.
    if (leaseMs !== pollLeaseMs(0) || this.progress.reads < MIN_READS_PER_LEASE) return false;
    // As the workflow chooses the next one.
    return pollLeaseMs(this.#plannedWaitMs(now, 0)) > leaseMs;
  }

  /**
   * The deadline has passed by this machine's clock, but not by the server's time as known here. That time is behind if
   * the attempt waited long for a worker, or the machine was suspended. Another attempt knows it anew.
   */
  get #isClockDoubtful(): boolean {
    const { deadlineAt } = this.#input;
    return deadlineAt !== null && this.#clock.server() < deadlineAt && this.#clock.late() >= deadlineAt;
  }
}

type JobOf = Pick<PollJobInput, 'projectId' | 'jobId'>;

async function read(upstream: Upstream, job: JobOf, signal: AbortSignal): Promise<JobResponse> {
  try {
    return { kind: 'record', ...(await upstream.getJob(job, { signal })) };
  } catch (error) {
    if (signal.aborted) throw nextAttemptIn('the worker is shutting down', 1);
    if (error instanceof RejectedError && [404, 410].includes(error.status)) return { kind: 'notFound' };
    if (!(error instanceof ReadFailedError || error instanceof RejectedError)) throw error;
    const retryAfterMs = error instanceof ReadFailedError ? error.retryAfterMs : undefined;
    return {
      kind: 'failed',
      reason: error.reason,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(error.status === 429 && { waitsFor: 'rateLimit' }),
      ...((error.status === 401 || error.status === 403) && { waitsFor: 'key' }),
    };
  }
}

/** Two records have the same one if a caller sees no difference. */
function fingerprint(job: JobRecord): string {
  return createHash('sha256').update(JSON.stringify(job)).digest('base64');
}

function describeResponse(response: JobResponse, failures: number): string {
  if (response.kind === 'record') return shownStatus(response.job.status);
  const what = response.kind === 'notFound' ? 'upstream answered 404' : response.reason;
  return failures > 1 ? `${what}, ${failures} times in a row` : what;
}

/** The retryable failure that ends an attempt: the server learns from it when the next one starts. */
export function nextAttemptIn(why: string, waitMs: number): ApplicationFailure {
  return tryLater('StillPolling', why, 'next poll', waitMs);
}

/** What the attempts of one batch hand on, in the details of a heartbeat or a failure. */
interface Saved {
  /** Failed reads in a row. */
  failures: number;
  /** 404 in a row. */
  notFound: number;
  /** Reads beyond the first of each attempt. */
  further: number;
  /** Attempts that ended before they had read anything. */
  unread: number;
}

/** Counts the polls of a batch over all its attempts. */
export class PollProgress {
  readonly saved: Saved;
  readonly #before: string;
  readonly #attempt: number;
  #readsHere = 0;

  constructor(
    input: Pick<PollJobInput, 'failures' | 'notFound'>,
    { attempt, heartbeatDetails }: Pick<Info, 'attempt' | 'heartbeatDetails'>,
  ) {
    const first = { failures: input.failures, notFound: input.notFound?.count ?? 0, further: 0, unread: 0 };
    const before = numbersIn(heartbeatDetails, first);
    this.#before = JSON.stringify(before);
    this.#attempt = attempt;
    // An operator's reset counts the attempts anew, and leaves the details.
    this.saved = { ...before, unread: Math.min(before.unread, attempt - 1) };
  }

  /** Polls of the whole batch so far. */
  get reads(): number {
    return this.#attempt - this.saved.unread + this.saved.further;
  }

  add(response: JobResponse['kind']): void {
    const { saved } = this;
    this.#readsHere += 1;
    if (this.#readsHere > 1) saved.further += 1;
    saved.failures = response === 'record' ? 0 : saved.failures + 1;
    saved.notFound = response === 'notFound' ? saved.notFound + 1 : 0;
  }

  /** This attempt ends before its next read. */
  skip(): void {
    if (this.#readsHere === 0) this.saved.unread += 1;
  }

  /** Whether the next attempt needs other numbers than this one was given. */
  get hasChanged(): boolean {
    return JSON.stringify(this.saved) !== this.#before;
  }
}

/** The details may hold more, and another release may have saved others. */
function numbersIn(details: unknown, numbers: Saved): Saved {
  const given: Partial<Saved> = typeof details === 'object' && details !== null ? details : {};
  const names = Object.keys(numbers) as (keyof Saved)[];
  const valid = names.filter((name) => Number.isFinite(given[name]) && given[name]! >= 0);
  return { ...numbers, ...Object.fromEntries(valid.map((name) => [name, given[name]])) };
}

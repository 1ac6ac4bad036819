/**
 * One attempt of a poll batch. Decides after each poll whether the batch ends, and otherwise when the next poll is due.
 * Times and waits in milliseconds.
 */
import { createHash } from 'node:crypto';
import type { ApplicationFailure, Info } from '@temporalio/activity';
import { shownStatus, type JobRecord } from '../../contract.js';
import type { ShownJob } from '../../contract/write-outcome.js';
import type { Metrics } from '../metrics.js';
import { endCounts, isSameEnd, seenEnd, standingOf, type EndRules } from '../../agent-job/ends.js';
import {
  isTrouble,
  LOST_AFTER,
  lostAfterMs,
  MIN_POLLS_PER_LEASE,
  pollLeaseMs,
  pollWaitMs,
  untilLostMs,
  type NotFound,
  type PollPlan,
} from '../../agent-job/poll-waits.js';
import { pollPauseMs } from '../../agent-job/waits.js';
import { startClock, tryLater } from '../../temporal/activity-attempt.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';

/** What a workflow asks a poll batch. */
export interface PollJobInput extends EndRules {
  projectId: string;
  jobId: string;
  plan: PollPlan;
  /** The record that the workflow knows: the batch ends when the upstream shows another. Null: any other ends it. */
  known: JobRecord | null;
  /** The links in it, if they are more than its `prLink`. */
  knownLinks?: readonly string[] | undefined;
  lastChangeAt: number;
  /** The batch ends at this time; null if no clock runs. */
  deadlineAt: number | null;
  /** Failed polls in a row before this batch. */
  failures: number;
  /** Polls fail, as the workflow knows: the batch ends at a good one. */
  isFailing: boolean;
  /** Before this time the batch does not end because polls begin to fail. */
  troubleReportsFrom: number;
  /** The pause that the upstream asked for, as the workflow knows: the batch ends when it asks for a longer one. */
  pauseMs: number;
  /** The answers 404 in a row before this batch; null if the last response was another. */
  notFound: NotFound | null;
  /** How many polls the batch may make. */
  maxReads: number;
}

/** What a poll has shown. */
export type Reading =
  /** `counts`: it is an end that counts, or a status without an end that has stood after one. */
  | ({ kind: 'record'; job: JobRecord; counts: boolean } & ShownJob)
  | { kind: 'unchanged' }
  /** The upstream answered 404 or 410, `count` times in a row; `page` is what came in place of its own answer. */
  | { kind: 'notFound'; count: number; page?: string; retryAfterMs?: number }
  | { kind: 'failed'; reason: string; retryAfterMs?: number; waitsFor?: 'rateLimit' | 'key' | 'upstream' };

/** What a batch reports to its workflow. */
export interface PollJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  /** Whether the last poll began at the deadline, or later. */
  isAtDeadline: boolean;
}

/** What an attempt needs of its worker. */
export interface PollAttemptOptions {
  upstream: Upstream;
  /** Aborted when the worker begins to shut down. */
  shutdownSignal: AbortSignal;
  metrics: Pick<Metrics, 'endSeen' | 'unknownStatus'>;
  /** For how long the batch is leased with each heartbeat; absent if each poll is an attempt. */
  leaseMs?: number | undefined;
}

/** What follows a poll: the batch ends, or another poll is due after a wait. */
export type NextStep =
  { kind: 'end'; result: PollJobResult } | { kind: 'wait'; ms: number; why: string; isHealthy: boolean };

type Response =
  | ({ kind: 'record'; job: JobRecord } & ShownJob)
  | { kind: 'notFound'; page?: string; retryAfterMs?: number }
  | (Reading & { kind: 'failed' });

/** An attempt: each call of `poll` makes one. */
export class PollAttempt {
  readonly progress: PollProgress;
  readonly #clock = startClock();
  readonly #beganAt = this.#clock.monotonic();
  readonly #input: Omit<PollJobInput, 'known' | 'knownLinks'>;
  /** A record takes up to 64 KiB, and a worker holds thousands: only its fingerprint is kept. */
  readonly #known: string | null;
  readonly #options: PollAttemptOptions;
  /** When the last poll here ended. */
  #polledAt: number | null = null;
  /** What the last poll showed, for people who see a heartbeat. */
  shown = '';

  constructor({ known, knownLinks, ...input }: PollJobInput, info: Info, options: PollAttemptOptions) {
    this.#input = input;
    this.#known = known && fingerprint(known, knownLinks);
    this.progress = new PollProgress(input, info);
    this.#options = options;
  }

  /** How long the attempt has lasted. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#beganAt;
  }

  /** Polls once. Throws, retryably, if the worker shuts down. */
  async poll(): Promise<NextStep> {
    const { progress } = this;
    const { upstream, shutdownSignal, metrics } = this.#options;
    const waitedMs = this.#polledAt === null ? null : this.#clock.monotonic() - this.#polledAt;
    // The upstream may have looked up the job at any time of the poll: what it shows counts as seen at the begin.
    const begunAt = this.#clock.server();
    const response = await ask(upstream, this.#input, shutdownSignal);
    this.#polledAt = this.#clock.monotonic();
    progress.add(response);
    if (response.kind === 'record' && response.isUnknownStatus) metrics.unknownStatus(this.#input.projectId);
    const reading = this.#endOf(response, begunAt);
    if (reading) {
      const isNewEnd = reading.kind === 'record' && reading.end !== null && !this.#isCandidate(reading);
      if (isNewEnd) metrics.endSeen((waitedMs ?? this.#plannedWaitMs(begunAt)) / 1_000);
      const { polls: reads, saved } = progress;
      const isAtDeadline = this.#isAtDeadline(begunAt);
      return { kind: 'end', result: { reading, reads, failures: saved.failures, isAtDeadline } };
    }
    const isRecord = response.kind === 'record';
    this.shown = describeResponse(response, progress.saved.failures);
    // The web UI shows it as the last failure of the activity.
    const why = isRecord ? `nothing is wrong: the job is ${this.shown}` : this.shown;
    return { kind: 'wait', ms: this.#waitMs(response), why, isHealthy: isRecord && !this.#isClockDoubtful };
  }

  /** What the batch ends with after this response; null if the upstream is asked again. */
  #endOf(response: Response, begunAt: number): Reading | null {
    const { progress } = this;
    const input = this.#input;
    const now = this.#clock.server();
    const isLastPoll = progress.polls >= input.maxReads || this.#isAtDeadline(begunAt);
    switch (response.kind) {
      case 'notFound': {
        // The workflow counts these at once: a batch that is cancelled must not forget them.
        const count = progress.notFound(response);
        const isOneOfThose = count <= LOST_AFTER.count;
        // The workflow decides by the time at which it takes them in.
        const { since = Infinity, isLost = false } = input.notFound ?? {};
        const mustReport = !isLost && now - since >= lostAfterMs(response);
        const isReported = isLastPoll || isOneOfThose || mustReport || this.#isWorseThanKnown(response, now);
        return isReported ? { ...response, count } : null;
      }
      case 'failed':
        return isLastPoll || input.notFound !== null || this.#isWorseThanKnown(response, now) ? response : null;
      case 'record': {
        const isLast = isLastPoll || this.#deservesLongerLease(now);
        const counts = endCounts(seenEnd(response), begunAt, input);
        const isNews = !this.#isCandidate(response) || fingerprint(response.job, response.prLinks) !== this.#known;
        const hasNowStood = counts && input.candidate?.hasStood !== true;
        if (isNews || hasNowStood || input.notFound !== null) return { ...response, counts };
        return isLast || input.isFailing ? { kind: 'unchanged' } : null;
      }
    }
  }

  /** Whether polls go worse than the workflow knows, so that the batch ends. */
  #isWorseThanKnown(response: Response & { kind: 'failed' | 'notFound' }, now: number): boolean {
    const { isFailing, troubleReportsFrom, pauseMs: knownMs, deadlineAt } = this.#input;
    const pauseMs = pollPauseMs(response);
    const isNews = pauseMs > knownMs || (!isFailing && now >= troubleReportsFrom);
    if (isNews && isTrouble(response, this.progress.saved.failures)) return true;
    // No last poll at the deadline goes against a `Retry-After`.
    return now + pauseMs >= (deadlineAt ?? Infinity);
  }

  /** Whether a poll showed what the workflow knows: the same end as its candidate, or none as before. */
  #isCandidate(response: Response & { kind: 'record' }): boolean {
    const { candidate } = this.#input;
    return candidate ? isSameEnd(seenEnd(response), candidate) : response.end === null;
  }

  #waitMs(response: Response): number {
    const { plan, lastChangeAt, deadlineAt, notFound } = this.#input;
    const now = this.#clock.server();
    const count = response.kind === 'notFound' ? this.progress.notFound(response) : 0;
    const wanted = pollWaitMs(plan, {
      sinceChangeMs: now - lastChangeAt,
      failures: this.progress.saved.failures,
      untilLostMs: untilLostMs(notFound && { ...notFound, count }, now),
      retryAfterMs: pollPauseMs(response),
      standing: standingOf(this.#input, now),
      random: Math.random(),
    });
    return Math.min(wanted, deadlineAt === null ? Infinity : Math.max(0, deadlineAt - now));
  }

  /** The wait before an attempt's first poll, by the plan: the server kept it. */
  #plannedWaitMs(now: number, failures = this.#input.failures): number {
    const { plan, lastChangeAt } = this.#input;
    return pollWaitMs(plan, { sinceChangeMs: now - lastChangeAt, failures, random: 0.5 });
  }

  #isAtDeadline(begunAt: number): boolean {
    return begunAt >= (this.#input.deadlineAt ?? Infinity);
  }

  /** The waits have grown: the next batch can have a longer lease. */
  #deservesLongerLease(now: number): boolean {
    const { leaseMs } = this.#options;
    // If another release or an operator set the lease, the next one may be no longer: batches would end for ever.
    if (leaseMs !== pollLeaseMs(0) || this.progress.polls < MIN_POLLS_PER_LEASE) return false;
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

async function ask(upstream: Upstream, job: JobOf, signal: AbortSignal): Promise<Response> {
  try {
    return { kind: 'record', ...(await upstream.getJob(job, { signal })) };
  } catch (error) {
    const mustPause = error instanceof ReadFailedError && error.retryAfterMs !== undefined;
    // The next attempt would go against it.
    if (signal.aborted && !mustPause) throw nextAttemptIn('the worker is shutting down', 1);
    if (error instanceof RejectedError && [404, 410].includes(error.status)) return { kind: 'notFound' };
    if (!(error instanceof ReadFailedError)) throw error;
    const { reason, status, retryAfterMs, isPage } = error;
    const pause = retryAfterMs !== undefined && { retryAfterMs };
    if (isPage && status === 404) return { kind: 'notFound', page: reason, ...pause };
    return {
      kind: 'failed',
      reason,
      ...pause,
      ...(status === 429 && { waitsFor: 'rateLimit' }),
      ...((status === 401 || status === 403) && !isPage && { waitsFor: 'key' }),
    };
  }
}

/** Two records have the same one if a caller sees no difference. */
function fingerprint(job: JobRecord, links: readonly string[] | undefined): string {
  return createHash('sha256')
    .update(JSON.stringify([job, links]))
    .digest('base64');
}

function describeResponse(response: Response, failures: number): string {
  if (response.kind === 'record') return shownStatus(response.job.status);
  const what = response.kind === 'failed' ? response.reason : (response.page ?? 'upstream answered 404');
  return failures > 1 ? `${what}, ${failures} times in a row` : what;
}

/** The retryable failure that ends an attempt: the server learns from it when the next one starts. */
export function nextAttemptIn(why: string, waitMs: number): ApplicationFailure {
  return tryLater('StillPolling', why, 'next poll', waitMs);
}

/** What the attempts of one batch hand on, in the details of a heartbeat or a failure. */
interface Saved {
  /** Failed polls in a row. */
  failures: number;
  /** 404 in a row. */
  notFound: number;
  /** 404 in a row that were pages. */
  pages: number;
  /** Polls beyond the first of each attempt. */
  further: number;
  /** Attempts that ended before their first poll. */
  unread: number;
}

/** Counts the polls of a batch over all its attempts. */
export class PollProgress {
  readonly saved: Saved;
  readonly #before: string;
  readonly #attempt: number;
  #pollsHere = 0;

  constructor(
    input: Pick<PollJobInput, 'failures' | 'notFound'>,
    { attempt, heartbeatDetails }: Pick<Info, 'attempt' | 'heartbeatDetails'>,
  ) {
    const { failures, notFound } = input;
    const count = notFound?.count ?? 0;
    const isPage = notFound?.page !== undefined;
    const inRow = { notFound: isPage ? 0 : count, pages: isPage ? count : 0 };
    const first = { failures, ...inRow, further: 0, unread: 0 };
    const before = numbersIn(heartbeatDetails, first);
    this.#before = JSON.stringify(before);
    this.#attempt = attempt;
    // An operator's reset counts the attempts anew, and leaves the details.
    this.saved = { ...before, unread: Math.min(before.unread, attempt - 1) };
  }

  /** Polls of the whole batch so far. */
  get polls(): number {
    return this.#attempt - this.saved.unread + this.saved.further;
  }

  add(response: Response): void {
    const { saved } = this;
    this.#pollsHere += 1;
    if (this.#pollsHere > 1) saved.further += 1;
    saved.failures = response.kind === 'record' ? 0 : saved.failures + 1;
    const isPage = response.kind === 'notFound' && response.page !== undefined;
    saved.pages = isPage ? saved.pages + 1 : 0;
    saved.notFound = response.kind === 'notFound' && !isPage ? saved.notFound + 1 : 0;
  }

  /** The number of such answers 404 in a row. */
  notFound({ page }: Response & { kind: 'notFound' }): number {
    return page === undefined ? this.saved.notFound : this.saved.pages;
  }

  /** This attempt ends before its next poll. */
  skip(): void {
    if (this.#pollsHere === 0) this.saved.unread += 1;
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

/**
 * What the polls of a job have shown. Decides whether the job has ended, is lost or is badly read, and whether a poll
 * before its time is wanted. Pure: no Temporal. Times in milliseconds.
 */
import { isTerminalStatus, MAX_RETRY_AFTER_MS, type JobRecord } from '../../contract.js';
import type { PollJobInput, PollJobResult, Reading } from '../../activities/agent-job/poll-attempt.js';
import {
  healthReportsFrom,
  isLongerPause,
  isSameRecord,
  LOST_AFTER,
  plannedPolls,
  readHealth,
  withHealthChange,
  type PollPlan,
  type ReadHealth,
} from '../../agent-job/poll-waits.js';
import { MAX_FAILING_WAIT_MS, readPauseMs } from '../../agent-job/waits.js';
import type { Interruption } from './write.js';

/** `pollNow` polls at most this often. */
const MIN_PAUSE_MS = 1_000;

/** What continue-as-new hands on. */
export interface PollData {
  job: JobRecord | null;
  lastChangeAt: number;
  /** Polls so far; those of a batch that was cut short are estimated. */
  polls: number;
  /** Until then a terminal status is shown and ends nothing: it may be from before the last follow-up. */
  settledAt: number;
  /** When a terminal status was read that counts; null while there is none. */
  endedAt: number | null;
  /** Answers 404 in a row; null if the last one was another. */
  notFound: { count: number; since: number } | null;
  /** The upstream has answered 404 for long enough. */
  isGone: boolean;
  /** Failed polls in a row. */
  failures: number;
  health: ReadHealth;
  /** When the health changed, the last times. */
  healthChanges: readonly number[];
  /** No poll before this time: the upstream said so. */
  notBefore: number;
  /** For how long the upstream asked to be left alone; absent if it did not. */
  pauseMs?: number | undefined;
  /** What reads fail for, and since when; null while the health is good. */
  interruption: Interruption | null;
  /** A caller said `pollNow`, and no poll has answered it yet. */
  pollRequested: boolean;
}

/** Before the first poll. */
export function firstPollData(startedAt: number): PollData {
  return {
    job: null,
    lastChangeAt: startedAt,
    polls: 0,
    settledAt: 0,
    endedAt: null,
    notFound: null,
    isGone: false,
    failures: 0,
    health: 'good',
    healthChanges: [],
    notBefore: 0,
    interruption: null,
    pollRequested: false,
  };
}

/** What one run knows of its polls. */
export class PollFindings {
  readonly #data: PollData;
  readonly #plan: PollPlan;
  readonly #now: () => number;

  /** When a poll before its time is wanted; null if none is. */
  requestedAt: number | null = null;
  /** Whether a caller wants it by `pollNow`: the next batch answers it. */
  isPollNow = false;
  batchStartedAt = 0;
  /** When the next batch is to begin; null while one runs. */
  nextPollAt: number | null = null;
  /** A batch has brought something that `observe` has not taken in yet: it must not be lost to continue-as-new. */
  hasResult = false;
  /** The batch that runs. */
  #batch: { since: number; sinceChangeMs: number; maxReads: number; ridesUntil: number } | null = null;

  constructor(data: PollData, plan: PollPlan, now: () => number) {
    this.#data = { ...data };
    this.#plan = plan;
    this.#now = now;
    if (data.pollRequested) this.pollNow();
  }

  /** What is known, to be read only. */
  get known(): Readonly<PollData> {
    return this.#data;
  }

  /** `pollNow`: at once, but at most once a second, and never against a `Retry-After`. */
  pollNow(): void {
    // The batch that runs reads as soon as it may. Another one would not know what it knows.
    if (this.#batch && this.#now() < this.#batch.ridesUntil) return;
    this.requestedAt ??= Math.max(this.#now(), this.batchStartedAt + MIN_PAUSE_MS);
    this.isPollNow = true;
    this.#data.pollRequested = true;
  }

  /** The batch that runs no longer knows what it needs to know: another one begins. */
  pollAgain(): void {
    this.requestedAt = this.#now();
  }

  /** What a batch must know of the reads before it. */
  get forBatch(): Pick<PollJobInput, 'failures' | 'health' | 'pauseMs' | 'healthReportsFrom' | 'notFound'> {
    const { failures, health, pauseMs, healthChanges, notFound } = this.#data;
    return { failures, health, pauseMs, healthReportsFrom: healthReportsFrom(healthChanges, this.#now()), notFound };
  }

  beginBatch({ maxReads, lastChangeAt, pauseMs = 0, healthReportsFrom }: PollJobInput): void {
    const now = this.#now();
    this.requestedAt = null;
    this.isPollNow = false;
    this.batchStartedAt = now;
    this.nextPollAt = null;
    // After it was cut short, no poll would come for so long: the batch itself polls sooner.
    const isLongPause = pauseMs >= Math.max(this.#plan.maxMs, MAX_FAILING_WAIT_MS);
    // It does not report a longer `Retry-After` that it meets before.
    const reportsFrom = isLongPause ? Infinity : healthReportsFrom;
    const ridesUntil = maxReads > 1 && now < reportsFrom ? reportsFrom + MAX_RETRY_AFTER_MS : 0;
    this.#batch = { since: now, sinceChangeMs: now - lastChangeAt, maxReads, ridesUntil };
  }

  /** The batch that runs is cut short: its polls are estimated from the plan. */
  cancelBatch(): void {
    if (!this.#batch) return;
    const data = this.#data;
    const now = this.#now();
    const { since, sinceChangeMs, maxReads } = this.#batch;
    data.polls += plannedPolls(this.#plan, sinceChangeMs, now - since, maxReads);
    // The upstream may have asked again to be left alone for as long, which only the batch knows.
    data.notBefore = Math.max(data.notBefore, now + (data.pauseMs ?? 0));
    this.#batch = null;
  }

  /** Takes in what a batch brought; what it read before a follow-up was accepted ends nothing. */
  observe({ reading, reads, failures }: PollJobResult, asked: PollJobInput): void {
    const data = this.#data;
    const now = this.#now();
    const isStale = asked.settledAt !== data.settledAt;
    data.polls += reads;
    data.failures = failures;
    this.#batch = null;
    this.hasResult = false;
    data.pollRequested = this.isPollNow;
    this.#noteHealth(reading);
    if (reading.kind === 'record') this.#read(reading.job, asked.endsAtTerminal && !isStale);
    if (reading.kind === 'settling') this.#read(reading.job, false);
    if (data.pauseMs !== undefined) data.notBefore = now + data.pauseMs;
    const isNotFound = reading.kind === 'notFound' && !isStale;
    const notFound = isNotFound ? { count: reading.count, since: data.notFound?.since ?? now } : null;
    data.notFound = notFound;
    // Whatever else comes in between, a job is found again: the run may not have ended yet.
    data.isGone = notFound !== null && notFound.count >= LOST_AFTER.count && now - notFound.since >= LOST_AFTER.ms;
  }

  #noteHealth(reading: Reading): void {
    const data = this.#data;
    const health = readHealth(reading, data.failures);
    const pauseMs = reading.kind === 'failed' ? readPauseMs(reading) : undefined;
    const isChange = health !== data.health || isLongerPause(health, pauseMs, data.pauseMs);
    if (isChange) data.healthChanges = withHealthChange(data.healthChanges, this.#now());
    data.health = health;
    data.pauseMs = pauseMs;
    data.interruption = health === 'good' ? null : pollInterruption(reading, data.interruption, this.#now());
  }

  #read(job: JobRecord, counts: boolean): void {
    const data = this.#data;
    if (!isSameRecord(job, data.job)) {
      data.job = job;
      data.lastChangeAt = this.#now();
    }
    if (!isTerminalStatus(job.status)) data.endedAt = null;
    else if (counts) data.endedAt ??= this.#now();
  }

  /** The job id is known from now on. `job` is what the create's response showed; null if a person named the job. */
  jobKnown(job: JobRecord | null): void {
    this.#data.lastChangeAt = this.#now();
    if (!job) return;
    this.#data.job = job;
    if (isTerminalStatus(job.status)) this.#data.endedAt = this.#now();
  }

  /**
   * A follow-up was accepted, or given up: from now on, and for `settleMs`, an older terminal status counts for
   * nothing.
   */
  followUpAccepted(job: JobRecord | null, settleMs: number): void {
    const data = this.#data;
    if (job) data.job = job;
    data.lastChangeAt = this.#now();
    data.settledAt = this.#now() + settleMs;
    data.endedAt = null;
    this.forgetNotFound();
    this.pollAgain();
  }

  /** Answers 404 so far end nothing. */
  forgetNotFound(): void {
    this.#data.notFound = null;
    this.#data.isGone = false;
  }

  carry(): PollData {
    return { ...this.#data };
  }
}

/** What keeps polls from being of use, as the last one showed; null if it brought something. */
export function pollInterruption(reading: Reading, before: Interruption | null, now: number): Interruption | null {
  if (reading.kind !== 'failed') return null;
  const { reason, waitsFor = 'upstream' } = reading;
  return { for: waitsFor, since: before?.for === waitsFor ? before.since : now, reason };
}

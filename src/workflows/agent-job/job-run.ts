/**
 * All that one run of `agentJob` knows, and how it changes. Nothing here waits: the lifecycle (agent-job.ts), the writes
 * (write.ts) and the watch (watch.ts) do, and ask `ending()` whether it is over.
 */
import {
  isTerminalStatus,
  type JobRecord,
  type JobState,
  type Phase,
  type ResolveUnknownInput,
  type Waiting,
} from '../../contract.js';
import type { WatchJobInput, WatchJobResult } from '../../activities/agent-job/poll-job.js';
import type { JobSpec } from '../../agent-job/input.js';
import { isSameRecord, LONGEST_RETRY_AFTER_MS, LOST_AFTER, plannedReads } from '../../agent-job/poll-plan.js';
import { FollowUps, type CarriedFollowUps } from './follow-up-queue.js';
import type { Ending, RunData, WriteProgress } from './run-data.js';
import { readTroubleOf, waitingOf } from './waiting.js';

/** Where nobody said how long a write in doubt may still be on its way. */
const MAY_BE_UNDER_WAY_MS = 120_000;
/** A worker counts from when its attempt was scheduled: how long that then waited in the queue shows here alone. */
const SOONEST_LOOK_MS = 30_000;
/** `pollNow` reads at most this often. */
const SHORTEST_PAUSE_MS = 1_000;

export class JobRun {
  readonly spec: JobSpec;
  readonly data: RunData;
  readonly followUps: FollowUps;
  readonly #now: () => number;

  /** A write's activity runs: its outcome must be known before anything ends. */
  isInFlight = false;
  isCancelRequested = false;
  /** When somebody wants the job read before its time; null where nobody does. */
  readWantedAt: number | null = null;
  /** Whether that somebody said `pollNow`. */
  isReadAsked = false;
  /** A watch has brought something that `observe` has not taken in yet: it must not be lost to continue-as-new. */
  hasReading = false;
  /** Waiting updates are answered with what is known each time this number grows. */
  releases = 0;
  /** The run is about to end or to continue as new: nobody is kept waiting. */
  isClosing = false;
  lastWatchAt = 0;
  /** When the next watch is to begin; null while one runs. */
  nextReadAt: number | null = null;
  /** The watch activity that runs. */
  #watching: { since: number; sinceChangeMs: number; maxReads: number } | null = null;
  #stop: Ending | null = null;

  constructor(spec: JobSpec, data: RunData, followUps: CarriedFollowUps, now: () => number) {
    this.spec = spec;
    this.data = data;
    this.followUps = new FollowUps(followUps);
    this.#now = now;
    if (data.isReadOwed) this.wantRead();
    // The first release handed on an unknown without it.
    if (data.unknown) data.unknown.lookAfter ??= isoTime(Date.parse(data.unknown.since) + MAY_BE_UNDER_WAY_MS);
  }

  /** Why the run is over; null while it is not. */
  ending(): Ending | null {
    const { data } = this;
    if (this.isInFlight) return null;
    if (this.isCancelRequested) return { kind: 'canceled' };
    if (this.#stop) return this.#stop;
    if (data.unknown || this.#isResending) return null;
    if (data.endedAt !== null && this.#isIdle) {
      return this.#now() >= data.endedAt + this.spec.lingerMs ? { kind: 'ended' } : null;
    }
    if (data.isLost) return { kind: 'lost' };
    return data.hasExpired ? { kind: 'timedOut' } : null;
  }

  get phase(): Phase {
    const { data } = this;
    if (this.ending()) return 'done';
    if (data.unknown) return 'needsAttention';
    if (data.jobId === null) return 'creating';
    if (data.write || !this.followUps.isEmpty) return 'sending';
    return this.isLingering ? 'lingering' : 'watching';
  }

  get isLingering(): boolean {
    return this.data.endedAt !== null && this.#isIdle && !this.data.unknown && this.lingerLeftMs > 0;
  }

  get lingerLeftMs(): number {
    return this.data.endedAt === null ? 0 : this.data.endedAt + this.spec.lingerMs - this.#now();
  }

  /** Whether the next terminal status that is read ends the run. */
  get endsAtTerminal(): boolean {
    return this.#isIdle && !this.data.unknown;
  }

  /** When the watch must end; null where no clock runs. */
  get watchDeadline(): number | null {
    const { data } = this;
    return data.unknown || data.hasExpired || this.isLingering ? null : data.deadlineAt;
  }

  /** A follow-up leaves right now, or within this very workflow task. */
  get isSendingNow(): boolean {
    const { write, unknown } = this.data;
    return !this.followUps.isEmpty && !unknown && (write === null || (!write.wait && write.notBefore <= this.#now()));
  }

  get #isIdle(): boolean {
    return this.followUps.isEmpty && this.data.write === null && this.data.jobId !== null;
  }

  /** The present write was sent before, with an outcome that nobody knows. */
  get mayHaveArrived(): boolean {
    const { write } = this.data;
    return write !== null && (write.unknownSends > 0 || write.confirmed);
  }

  /** Between the sends of policy `retry`, and before the one that a person wants, the write counts as in flight. While it is held up it does not. */
  get #isResending(): boolean {
    return this.mayHaveArrived && this.data.write?.isHeldUp !== true;
  }

  beginWrite(write: Pick<WriteProgress, 'kind' | 'followUpId' | 'askedAt' | 'requiresConfirmation'>): void {
    if (this.data.write) return;
    // No clock ran while the job had ended: a follow-up to it has all of its time.
    if (this.data.endedAt !== null) this.#restartClock();
    this.data.write = {
      ...write,
      refusals: 0,
      notDelivered: 0,
      unknownSends: 0,
      confirmed: false,
      confirmationRequestedIn: null,
      notBefore: 0,
    };
  }

  /** The job id is known: from the create's answer, or from a person. */
  jobKnown(jobId: string, job: JobRecord | null): void {
    const { data } = this;
    data.jobId = jobId;
    data.write = null;
    data.lastChangeAt = this.#now();
    if (job) {
      data.job = job;
      if (isTerminalStatus(job.status)) data.endedAt = this.#now();
    }
    this.#restartClock();
  }

  /** The upstream took the follow-up, or somebody gave it up: from now on an older terminal status counts for nothing. */
  followUpDone(state: 'sent' | 'unknown', job: JobRecord | null, error?: string): void {
    const { data } = this;
    this.followUps.settle(state, error);
    data.write = null;
    if (job) data.job = job;
    data.lastChangeAt = this.#now();
    data.settledAt = this.#now() + this.spec.settleMs;
    data.endedAt = null;
    data.missing = null;
    data.isLost = false;
    this.#restartClock();
    this.readWantedAt = this.#now();
  }

  followUpRejected(error: string): void {
    this.followUps.settle('rejected', error);
    this.data.write = null;
    // The watch that ran beside the write does not end at a terminal status it knows.
    if (this.data.endedAt === null) this.readWantedAt = this.#now();
  }

  /** The run ends: what waits was surely never sent, but for a follow-up that may have arrived. */
  abandonRest(): void {
    if (this.isCancelRequested && this.data.write?.kind === 'create' && !this.data.unknown && this.mayHaveArrived) {
      this.becomeUnknown(this.data.trouble ?? 'an earlier send may have arrived');
    }
    const { write, unknown } = this.data;
    if (write?.kind === 'followUp' && (unknown || this.mayHaveArrived)) {
      this.followUps.settle('unknown', unknown?.reason);
    }
    this.data.write = null;
    this.followUps.abandonQueued();
  }

  stop(ending: Ending): void {
    this.#stop = ending;
  }

  /** Nobody is kept waiting any more; whoever waits for what will never be sent is told so. */
  close(): void {
    const ending = this.ending();
    if (ending && ending.kind !== 'ended') {
      this.stop(ending);
      this.abandonRest();
    }
    this.isClosing = true;
  }

  /** A write may or may not have arrived: the clock stands still until it is settled, and whoever waits is told. */
  becomeUnknown(reason: string, lookAfter: number = this.#now() + MAY_BE_UNDER_WAY_MS): void {
    const { data, spec } = this;
    if (!data.write) return;
    const { kind, followUpId } = data.write;
    const soonest = this.#now() + SOONEST_LOOK_MS;
    const times = { since: isoTime(this.#now()), lookAfter: isoTime(Math.max(lookAfter, soonest)) };
    data.unknown = { kind, ...(followUpId === undefined ? {} : { followUpId }), reason, ...times };
    data.decideBy = spec.decideWithinMs === null ? null : this.#now() + spec.decideWithinMs;
    data.clockStoppedAt = this.#now();
    if (kind === 'followUp') this.followUps.mark('unknown');
    this.releases += 1;
  }

  /** Settles the unknown as a person (or the end of their time) says; the caller has checked that it fits. */
  resolveUnknown(resolution: ResolveUnknownInput): void {
    const { data } = this;
    const { write, unknown } = data;
    if (!write || !unknown) return;
    this.#endUnknown();
    if (resolution.action === 'retry') {
      const anew = { refusals: 0, notDelivered: 0, unknownSends: 0, inDoubtSince: null, isHeldUp: false, notBefore: 0 };
      data.write = { ...write, ...anew, confirmed: true };
      if (unknown.kind === 'followUp') this.followUps.mark('queued');
      // The watch that ran meanwhile knows no deadline.
      if (data.jobId !== null) this.readWantedAt = this.#now();
    } else if (resolution.action === 'adopt') {
      this.jobKnown(resolution.jobId, null);
    } else if (resolution.action === 'delivered') {
      this.followUpDone('sent', null);
    } else if (unknown.kind === 'create') {
      this.stop({ kind: 'abandoned' });
    } else {
      this.followUpDone('unknown', null, unknown.reason);
    }
  }

  #endUnknown(): void {
    const { data } = this;
    if (data.clockStoppedAt !== null) data.deadlineAt += this.#now() - data.clockStoppedAt;
    data.clockStoppedAt = null;
    data.unknown = null;
    data.decideBy = null;
    // What the watch found before must not end the run before the decision is carried out.
    data.hasExpired = false;
    data.missing = null;
    data.isLost = false;
  }

  #restartClock(): void {
    this.data.deadlineAt = this.#now() + this.spec.deadlineMs;
    // It stands still from now on, where it does.
    if (this.data.clockStoppedAt !== null) this.data.clockStoppedAt = this.#now();
    this.data.hasExpired = false;
  }

  /** Takes in what a watch brought; what it read before a follow-up was accepted ends nothing. */
  observe({ reading, reads, failures }: WatchJobResult, asked: WatchJobInput): void {
    const { data } = this;
    const isStale = asked.settledAt !== data.settledAt;
    data.polls += reads;
    data.failures = failures;
    this.#watching = null;
    this.hasReading = false;
    data.isReadOwed = this.isReadAsked;
    data.trouble =
      reading.kind === 'failed' ? reading.reason : reading.kind === 'missing' ? 'upstream answered 404' : null;
    data.missing =
      reading.kind === 'missing' && !isStale
        ? { count: reading.count, since: data.missing?.since ?? this.#now() }
        : null;
    data.readTrouble = readTroubleOf(reading, data.readTrouble, this.#now());
    if (reading.kind === 'record') this.#read(reading.job, asked.endsAtTerminal && !isStale);
    if (reading.kind === 'settling') this.#read(reading.job, false);
    if (reading.kind === 'failed')
      data.notBefore = this.#now() + Math.min(reading.retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS);
    const { missing } = data;
    // Whatever else comes in between, a job is found again: the run may not have ended yet.
    data.isLost = missing !== null && missing.count >= LOST_AFTER.count && this.#now() - missing.since >= LOST_AFTER.ms;
    if (this.watchDeadline !== null && this.#now() >= data.deadlineAt) data.hasExpired = true;
  }

  #read(job: JobRecord, counts: boolean): void {
    const { data } = this;
    if (!isSameRecord(job, data.job)) {
      data.job = job;
      data.lastChangeAt = this.#now();
    }
    if (!isTerminalStatus(job.status)) {
      if (data.endedAt !== null) this.#restartClock();
      data.endedAt = null;
    } else if (counts) {
      data.endedAt ??= this.#now();
    }
  }

  /** `pollNow`: at once, but at most once a second. */
  wantRead(): void {
    if (this.data.jobId === null) return;
    this.readWantedAt ??= Math.max(this.#now(), this.lastWatchAt + SHORTEST_PAUSE_MS);
    this.isReadAsked = true;
    this.data.isReadOwed = true;
  }

  beginWatch({ maxReads, lastChangeAt }: WatchJobInput): void {
    this.readWantedAt = null;
    this.isReadAsked = false;
    this.lastWatchAt = this.#now();
    this.nextReadAt = null;
    this.#watching = { since: this.#now(), sinceChangeMs: this.#now() - lastChangeAt, maxReads };
  }

  /** The watch, where one runs, is cut short: its reads are estimated from the plan. */
  cutWatch(): void {
    if (!this.#watching) return;
    const { since, sinceChangeMs, maxReads } = this.#watching;
    this.data.polls += plannedReads(this.spec.polling, sinceChangeMs, this.#now() - since, maxReads);
    this.#watching = null;
  }

  get waiting(): Waiting | null {
    return this.isInFlight || this.ending() ? null : waitingOf(this, this.#now());
  }

  state(): JobState {
    const { data } = this;
    return {
      phase: this.phase,
      projectId: this.spec.projectId,
      jobId: data.jobId,
      job: data.job,
      followUps: this.followUps.statuses(),
      usedFollowUpIds: this.followUps.usedIds(),
      unknown: data.unknown,
      waiting: this.waiting,
      startedAt: isoTime(data.startedAt),
      lastChangeAt: isoTime(data.lastChangeAt),
      polls: data.polls,
    };
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

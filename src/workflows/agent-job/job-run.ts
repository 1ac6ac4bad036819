/**
 * All that one run of `agentJob` knows: its clock, the pending write, what the polls showed, and the queue of
 * follow-ups. Nothing here waits. The lifecycle (agent-job.ts), the writes (writes.ts) and the polls (polling.ts) do,
 * and ask `ending()` whether it is over.
 */
import type { InDoubtWrite, JobRecord, Phase, ResolveUnknownInput } from '../../contract.js';
import type { PollJobInput, PollJobResult } from '../../activities/index.js';
import type { JobSpec } from '../../agent-job/input.js';
import { Decisions } from './decisions.js';
import { FollowUps, type CarriedFollowUps } from './follow-up-queue.js';
import { inDoubtWrite } from './in-doubt.js';
import { JobClock } from './job-clock.js';
import { LeftQueue } from './left-queue.js';
import { PendingWrite } from './pending-write.js';
import { PollState } from './poll-state.js';
import type { RunData, RunEnding } from './run-data.js';
import type { WriteIdentity } from './write-data.js';

export class JobRun {
  readonly spec: JobSpec;
  readonly title: string;
  readonly startedAt: number;
  readonly isRepeated: boolean;
  readonly clock: JobClock;
  readonly polls: PollState;
  readonly followUps: FollowUps;
  readonly decisions: Decisions;
  readonly leftQueue = new LeftQueue();
  readonly #now: () => number;

  isCancelRequested = false;
  /** Waiting updates are answered with what is known each time this number grows. */
  releases = 0;
  /** The run is about to end or to continue as new: nobody is kept waiting. */
  isClosing = false;
  #jobId: string | null;
  #write: PendingWrite | null;
  #stop: RunEnding | null = null;

  constructor(spec: JobSpec, data: RunData, followUps: CarriedFollowUps, now: () => number) {
    this.spec = spec;
    this.title = data.title;
    this.startedAt = data.startedAt;
    this.isRepeated = data.isRepeated;
    this.clock = new JobClock(data.clock, spec.deadlineMs, now);
    this.polls = new PollState(data.polls, spec.polling, now);
    this.followUps = new FollowUps(followUps);
    this.decisions = new Decisions(data.decisions);
    this.#jobId = data.jobId;
    this.#write = data.write && new PendingWrite(data.write);
    this.#now = now;
  }

  /** Null until the create has brought it. */
  get jobId(): string | null {
    return this.#jobId;
  }

  /** The write that is not settled yet: at most one. */
  get write(): PendingWrite | null {
    return this.#write?.isSettled === false ? this.#write : null;
  }

  /** The write in doubt that a person must decide; also after a run that ended before. */
  get inDoubt(): InDoubtWrite | null {
    return this.#write?.inDoubt ?? null;
  }

  /** Why the run is over; null while it is not. */
  ending(): RunEnding | null {
    const { write, polls } = this;
    // Its outcome must be known before anything ends.
    if (write?.isSending) return null;
    if (this.isCancelRequested) return { kind: 'canceled' };
    if (this.#stop) return this.#stop;
    if (write?.inDoubt || write?.countsAsInFlight) return null;
    if (polls.known.endedAt !== null && this.#isIdle) return this.lingerLeftMs > 0 ? null : { kind: 'ended' };
    if (polls.known.isGone) return { kind: 'lost' };
    return this.clock.hasExpired ? { kind: 'timedOut' } : null;
  }

  get phase(): Phase {
    if (this.ending()) return 'done';
    if (this.inDoubt) return 'needsAttention';
    if (this.#jobId === null) return 'creating';
    if (this.write || !this.followUps.isEmpty) return 'sending';
    return this.isLingering ? 'lingering' : 'watching';
  }

  get isLingering(): boolean {
    return this.#isIdle && this.lingerLeftMs > 0;
  }

  get lingerLeftMs(): number {
    const { endedAt } = this.polls.known;
    return endedAt === null ? 0 : endedAt + this.spec.lingerMs - this.#now();
  }

  /** Whether the next terminal status that is read ends the run. */
  get endsAtTerminal(): boolean {
    return this.#isIdle;
  }

  /** When polling must end; null where no clock runs. */
  get pollDeadline(): number | null {
    const { isStopped, hasExpired, deadlineAt } = this.clock;
    return this.inDoubt || isStopped || hasExpired || this.isLingering ? null : deadlineAt;
  }

  /** A follow-up leaves right now, or within this very workflow task. */
  get isSendingNow(): boolean {
    return !this.followUps.isEmpty && (this.write === null || this.write.isLeaving);
  }

  get #isIdle(): boolean {
    return this.followUps.isEmpty && this.write === null && !this.inDoubt && this.#jobId !== null;
  }

  /** Begins a write, or goes on with the one that an earlier run began. */
  beginWrite(identity: WriteIdentity): PendingWrite {
    if (this.write) return this.write;
    // While the job had ended, the deadline was not enforced and may have passed: a follow-up gets a full one.
    if (this.polls.known.endedAt !== null) this.clock.restart();
    this.#write = PendingWrite.begin(identity);
    return this.#write;
  }

  /** The write waits for its turn no more. */
  resumeClock(): void {
    if (!this.clock.isStopped) return;
    this.clock.resume();
    // The batch of polls that runs knows no deadline.
    if (this.#jobId !== null) this.polls.pollAgain();
  }

  /** The job id is known: from the create's answer, or from a person. */
  jobKnown(jobId: string, job: JobRecord | null): void {
    this.#jobId = jobId;
    this.#write?.settle();
    this.polls.jobKnown(job);
    this.clock.restart();
  }

  /** The upstream accepted the follow-up, or somebody gave it up. */
  followUpDone(state: 'sent' | 'unknown', job: JobRecord | null, error?: string): void {
    this.followUps.settleNext(state, error);
    this.#write?.settle();
    this.polls.followUpAccepted(job, this.spec.settleMs);
    this.clock.restart();
  }

  followUpRejected(error: string): void {
    this.followUps.settleNext('rejected', error);
    this.#write?.settle();
    // The batch of polls that ran beside the write does not end at a terminal status it knows.
    if (this.polls.known.endedAt === null) this.polls.pollAgain();
  }

  /** The write ends without an outcome that is known, and the run fails. */
  failWrite(ending: RunEnding & { kind: 'failed' }, followUpError?: string): void {
    if (this.write?.identity.kind === 'followUp') this.followUps.settleNext('unknown', followUpError);
    if (this.write) this.leftQueue.leave(this.write, this.spec.projectId);
    this.#write?.leave();
    this.#stop = ending;
  }

  /** The run ends: what waits was surely never sent, but for a write that may have arrived. */
  abandonRest(): void {
    const { write } = this;
    if (write?.identity.kind === 'create' && write.mayHaveArrived && !write.inDoubt && this.isCancelRequested) {
      this.becomeInDoubt(write.interruption?.reason ?? 'an earlier send may have arrived');
    }
    if (write?.identity.kind === 'followUp' && (write.inDoubt || write.mayHaveArrived)) {
      this.followUps.settleNext('unknown', write.inDoubt?.reason);
    }
    write?.leave();
    this.followUps.abandonQueued();
  }

  /** Nobody is kept waiting any more; whoever waits for what will never be sent is told so. */
  close(): void {
    const ending = this.ending();
    if (ending && ending.kind !== 'ended') {
      this.#stop = ending;
      if (this.write) this.leftQueue.leave(this.write, this.spec.projectId);
      this.abandonRest();
    }
    this.isClosing = true;
  }

  /** A write may or may not have arrived: the clock stands still until it is settled, and whoever waits is told. */
  becomeInDoubt(reason: string, lookAfter?: number, confirmationRequestedIn: string | null = null): void {
    const { write } = this;
    if (!write) return;
    const now = this.#now();
    const { decideWithinMs } = this.spec;
    const inDoubt = inDoubtWrite(write.identity, reason, { now, lookAfter });
    write.becomeInDoubt(inDoubt, decideWithinMs === null ? null : now + decideWithinMs, confirmationRequestedIn);
    this.clock.stop();
    if (inDoubt.kind === 'followUp') this.followUps.showNextAs('unknown');
    this.releases += 1;
  }

  /** Settles the write in doubt as a person (or the end of their time) says; the caller has checked that it fits. */
  resolveUnknown(resolution: ResolveUnknownInput, decidedBy: 'person' | 'time' = 'person'): void {
    const { write } = this;
    if (!write?.inDoubt) return;
    const { kind, reason } = write.inDoubt;
    if (decidedBy === 'person') this.decisions.add(resolution, write.inDoubt, this.#now());
    this.clock.resume();
    // What the polls found before must not end the run before the decision is carried out.
    this.polls.forgetNotFound();
    if (resolution.action === 'retry') this.#confirm(write);
    else if (resolution.action === 'adopt') this.jobKnown(resolution.jobId, null);
    else if (resolution.action === 'delivered') this.followUpDone('sent', null);
    else if (kind === 'followUp') this.followUpDone('unknown', null, reason);
    else {
      write.settle();
      this.#stop = { kind: 'abandoned' };
    }
  }

  #confirm(write: PendingWrite): void {
    write.confirm();
    if (write.identity.kind === 'followUp') this.followUps.showNextAs('queued');
    // The batch of polls that ran meanwhile knows no deadline.
    if (this.#jobId !== null) this.polls.pollAgain();
  }

  /** Takes in what a batch of polls brought. */
  observe(result: PollJobResult, asked: PollJobInput): void {
    const hadEnded = this.polls.known.endedAt !== null;
    this.polls.observe(result, asked);
    if (hadEnded && this.polls.known.endedAt === null) this.clock.restart();
  }

  pollNow(): void {
    if (this.#jobId !== null) this.polls.pollNow();
    this.write?.askAgain(this.#now());
  }

  /** `isReset`: what has not been sent must be confirmed by a person in the next run. */
  carry(isReset: boolean): RunData {
    const { title, startedAt, isRepeated, jobId, clock, polls, write } = this;
    const carried = { clock: clock.carry(), polls: polls.carry(), write: write?.carry(isReset) ?? null };
    return { title, startedAt, isRepeated, jobId, ...carried, decisions: this.decisions.list() };
  }
}

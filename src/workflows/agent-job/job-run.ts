/**
 * All that one run of `agentJob` knows: its deadline, the pending write, what the polls showed, and the queue of
 * follow-ups. Decides by `ending()` whether the run is over. Waits are in agent-job.ts, send.ts and poll-loop.ts.
 */
import {
  FAILURE,
  LIMIT,
  type Decision,
  type InDoubtWrite,
  type JobRecord,
  type Outcome,
  type Phase,
  type ResolveUnknownInput,
  type TerminalStatus,
  type UnknownOutcomeDetails,
} from '../../contract.js';
import type { JobSpec } from '../../agent-job/input.js';
import type { ShownJob } from '../../contract/write-outcome.js';
import { jsonBytes } from '../../contract/shared.js';
import { passesAt, restart, type Deadline } from './deadline.js';
import { FollowUps, type CarriedFollowUps } from './follow-up-queue.js';
import { afterEvent, deadlineAfter, type Situation, type WriteEvent } from './write-transitions.js';
import { PollFindings, type PollData } from './poll-findings.js';
import { lastPollText, lostText, notCreatedText, whyEnded } from './poll-texts.js';
import {
  beginWrite,
  countsAsInFlight,
  inDoubtOf,
  isLeaving,
  mayHaveArrived,
  type Resolution,
  type Write,
  type WriteIdentity,
} from './write.js';

/** The plain data of a run: continue-as-new hands it on. Times in milliseconds. */
export interface RunData {
  title: string;
  startedAt: number;
  /** Temporal itself started this run again, or one before it in its chain: every write asks first. */
  isRepeated: boolean;
  jobId: string | null;
  /** When this run, or one before it in its chain, created the job; null if it did not. */
  createdAt: number | null;
  deadline: Deadline;
  polls: PollData;
  write: Write | null;
  decisions: readonly Decision[];
}

/** Why a run is over. */
export type RunEnding =
  | { kind: 'ended'; end: TerminalStatus }
  | { kind: Exclude<Outcome, TerminalStatus> | 'canceled' }
  | { kind: 'failed'; type: string; message: string; details: unknown };

/** What an accepted write brought. */
type Answered = { job: JobRecord | null } & Partial<ShownJob>;

/** One run of `agentJob`. Only this file writes its fields, but where another writer is named. */
export class JobRun {
  readonly spec: JobSpec;
  readonly title: string;
  readonly startedAt: number;
  readonly isRepeated: boolean;
  readonly polls: PollFindings;
  readonly followUps: FollowUps;
  readonly #now: () => number;

  /** Written by agent-job.ts. */
  isCancelRequested = false;
  /** Waiting updates are answered with what is known each time this number grows. Written by `apply`. */
  releases = 0;
  /** Why it ended as it did, for people; null if that needs no reason. Written by `close`. */
  endReason: string | null = null;
  /** The run is about to end or to continue as new: no caller is kept waiting. Written by `close` and agent-job.ts. */
  isClosing = false;
  /** What people decided about writes in doubt, in the order carried out. Written by `resolveUnknown`. */
  decisions: readonly Decision[];
  /** Null until the create has brought it. Written by `apply`. */
  jobId: string | null;
  /** When the job was created; null if another created it. Written by `apply`. */
  createdAt: number | null;
  /** Written by `beginWrite` and `apply`. */
  #write: Write | null;
  /** Written by `apply` and `expire`. */
  #deadline: Deadline;
  /** What ends the run whatever comes. Written by `apply` and `close`. */
  #stop: RunEnding | null = null;

  constructor(spec: JobSpec, data: RunData, followUps: CarriedFollowUps, now: () => number) {
    this.spec = spec;
    this.title = data.title;
    this.startedAt = data.startedAt;
    this.isRepeated = data.isRepeated;
    this.polls = new PollFindings(data.polls, spec, now);
    this.followUps = new FollowUps(followUps);
    this.decisions = data.decisions;
    this.jobId = data.jobId;
    this.createdAt = data.createdAt;
    this.#write = data.write;
    this.#deadline = data.deadline;
    this.#now = now;
  }

  /** The write that is not resolved yet: at most one. */
  get write(): Write | null {
    return this.#write?.state.kind === 'resolved' ? null : this.#write;
  }

  get isSending(): boolean {
    return this.#write?.state.kind === 'sending';
  }

  /** The write in doubt that a person must decide; also after a run that ended before. */
  get inDoubt(): InDoubtWrite | null {
    return this.#write && inDoubtOf(this.#write);
  }

  get deadline(): Deadline {
    return this.#deadline;
  }

  /** Why a write changes as it does, and when its wait is over. */
  get situation(): Situation {
    const { spec, startedAt, isCancelRequested } = this;
    return { spec, now: this.#now(), startedAt, isCancelRequested };
  }

  /** Why the run is over; null while it is not. */
  ending(): RunEnding | null {
    const { write, polls } = this;
    // Its outcome must be known before anything ends.
    if (this.isSending) return null;
    // A closed run may still be leaving its queue, and is no longer cancelled.
    if (this.isClosing && this.#stop) return this.#stop;
    if (this.isCancelRequested) return { kind: 'canceled' };
    if (this.#stop) return this.#stop;
    if (write && (inDoubtOf(write) || countsAsInFlight(write))) return null;
    const { lastEnd: end } = polls;
    // An end that has not stood counts all the same if no further poll can show another.
    const ended = end && ({ kind: 'ended', end } as const);
    if (polls.hasEnded && this.isIdle) return ended;
    if (polls.known.isGone) return ended ?? { kind: 'lost' };
    return this.deadline.hasExpired ? (ended ?? { kind: 'timedOut' }) : null;
  }

  get phase(): Phase {
    if (this.ending()) return 'done';
    if (this.inDoubt) return 'needsAttention';
    if (this.jobId === null) return 'creating';
    return this.write || !this.followUps.isEmpty ? 'sending' : 'watching';
  }

  /** When polling must end; null if no clock runs. */
  get pollDeadline(): number | null {
    return passesAt(this.#deadline);
  }

  /** A follow-up leaves right now, or within this very workflow task. */
  get isSendingNow(): boolean {
    return !this.followUps.isEmpty && (this.write === null || isLeaving(this.write));
  }

  /** Nothing is to be sent: an end that counts ends the run. */
  get isIdle(): boolean {
    return this.followUps.isEmpty && this.write === null && !this.inDoubt && this.jobId !== null;
  }

  /** Begins a write, or goes on with the one that an earlier run began. */
  beginWrite(identity: WriteIdentity): void {
    if (this.write) return;
    this.#write = beginWrite(identity);
  }

  /** Changes the write; the run follows. */
  apply(event: WriteEvent): void {
    const before = this.write;
    if (!before) return;
    const after = afterEvent(before, event, this.situation);
    if (after === before) return;
    this.#write = after;
    this.#setDeadline(deadlineAfter(this.#deadline, event, after, this.#now()));
    if (after.state.kind !== before.state.kind) this.#follow(before, after);
  }

  #setDeadline(after: Deadline): void {
    const before = this.#deadline;
    this.#deadline = after;
    // The batch of polls that runs knows no deadline.
    if (after !== before && before.stoppedAt !== null && this.jobId !== null) this.polls.pollAgain();
  }

  /** The deadline has passed, and the last poll was made; or a create has waited for its first turn long enough. */
  expire(): void {
    this.#deadline = { ...this.#deadline, hasExpired: true };
  }

  /** What the new state of the write means for the run. */
  #follow(before: Write, { state, kind }: Write): void {
    if (state.kind === 'resolved') return this.#resolved(before, state.as);
    if (state.kind === 'inDoubt') {
      if (kind === 'followUp') this.followUps.showNextAs('unknown');
      this.releases += 1;
    }
    if (state.kind === 'confirmed') {
      // What the polls found before must not end the run before the decision is carried out.
      this.polls.forgetNotFound();
      if (kind === 'followUp') this.followUps.showNextAs('queued');
    }
  }

  #resolved(write: Write, as: Resolution): void {
    const { kind } = write;
    switch (as.kind) {
      case 'accepted':
        return kind === 'create' ? this.#jobKnown(as) : this.#followUpDone('sent', as);
      case 'rejected':
        return this.#rejected(write, as);
      case 'unknown':
        return this.#followUpDone('unknown', { job: null }, as.reason);
      case 'abandoned':
        this.#stop = { kind: 'abandoned' };
        return;
      case 'failed':
        return this.#failed(write, as.reason);
      case 'left':
        if (kind === 'followUp' && (inDoubtOf(write) || mayHaveArrived(write))) {
          this.followUps.resolveNext('unknown', inDoubtOf(write)?.reason);
        }
    }
  }

  /** From the create's answer, or from a person. */
  #jobKnown({ jobId, job, ...shown }: Resolution & { kind: 'accepted' }): void {
    this.jobId = jobId;
    this.createdAt = this.#now();
    this.polls.jobKnown(job, shown);
    this.#deadline = restart(this.#now() + this.spec.deadlineMs);
  }

  /** The upstream accepted the follow-up, or a person gave it up. */
  #followUpDone(state: 'sent' | 'unknown', { job, ...shown }: Answered, error?: string): void {
    this.followUps.resolveNext(state, error);
    this.polls.followUpTaken(job, shown);
    this.#deadline = restart(this.#now() + this.spec.deadlineMs);
  }

  #rejected({ kind }: Write, { status, error }: Resolution & { kind: 'rejected' }): void {
    if (kind === 'create') {
      // The SDK logs messages of failures, and no details.
      const message = `the upstream rejected the create: ${status}`;
      this.#stop = { kind: 'failed', type: FAILURE.createRejected, message, details: { status, error } };
      return;
    }
    this.followUps.resolveNext('rejected', `${status}${error && `: ${error}`}`);
  }

  /** Whether the write arrived is not known. */
  #failed(write: Write, reason: string): void {
    const { kind, followUpId = null } = write;
    const details: UnknownOutcomeDetails = { kind, jobId: this.jobId, followUpId, reason };
    const what = kind === 'create' ? 'create' : `follow-up ${followUpId}`;
    const message = `it is unknown whether the upstream took the ${what}: ${reason}`;
    if (kind === 'followUp') this.followUps.resolveNext('unknown', reason);
    this.#stop = { kind: 'failed', type: FAILURE.unknownOutcome, message, details };
  }

  #whyEnded({ kind }: RunEnding): string | null {
    const { polls, jobId, write } = this;
    if (kind === 'ended') return whyEnded(polls, this.#now());
    if (kind === 'lost') return lostText(polls.known, this.#now());
    if (kind !== 'timedOut') return null;
    return jobId === null ? notCreatedText(write) : lastPollText(polls.known);
  }

  /** No caller is kept waiting any more: what still waits will never be sent. */
  close(): void {
    const ending = this.ending();
    if (!this.#stop) this.endReason = ending && this.#whyEnded(ending);
    // A follow-up may still come to a job that has ended with nothing left to send.
    if (ending && !(ending.kind === 'ended' && this.isIdle)) {
      this.#stop = ending;
      this.apply({ kind: 'runEnds' });
      this.followUps.abandonQueued();
    }
    this.isClosing = true;
  }

  /** Resolves the write in doubt as a person says; the caller has checked that it fits. */
  resolveUnknown(decision: ResolveUnknownInput): void {
    if (!this.write || !this.inDoubt) return;
    this.decisions = withDecision(this.decisions, decision, this.inDoubt, this.#now());
    this.apply({ kind: 'decided', decision });
  }

  pollNow(): void {
    if (this.jobId !== null) this.polls.pollNow();
    this.apply({ kind: 'pollNow' });
  }

  /** `isReset`: what has not been sent must be confirmed by a person in the next run. */
  carry(isReset: boolean): RunData {
    const { title, startedAt, isRepeated, jobId, createdAt, polls, write } = this;
    const carriedWrite = write && { ...write, requiresConfirmation: write.requiresConfirmation || isReset };
    const carried = { deadline: this.#deadline, polls: polls.carry(), write: carriedWrite };
    return { title, startedAt, isRepeated, jobId, createdAt, ...carried, decisions: this.decisions };
  }
}

/**
 * All decisions of a run, as JSON: they are in state, result and what continue-as-new hands on, and Temporal
 * limits each to 2 MiB. The last 100 fit, unless their text is full of characters that JSON escapes.
 */
const MAX_DECISION_BYTES = 200_000;

/** The decisions of a run with one more; the first ones leave if that is above a limit. */
export function withDecision(
  before: readonly Decision[],
  { action, jobId, by, note }: ResolveUnknownInput,
  { kind, followUpId }: InDoubtWrite,
  at: number,
): Decision[] {
  const decision: Decision = {
    action,
    kind,
    ...(followUpId !== undefined && { followUpId }),
    ...(jobId != null && { jobId }),
    ...(by != null && { by }),
    ...(note != null && { note }),
    at: new Date(at).toISOString(),
  };
  const decisions = [...before, decision];
  while (decisions.length > LIMIT.listedDecisions || jsonBytes(decisions) > MAX_DECISION_BYTES) decisions.shift();
  return decisions;
}

/**
 * Decides until when a worker may poll a batch that it holds after its activity's function has ended. Without a
 * heartbeat within the heartbeat timeout the server gives the batch to another worker: so a worker that was killed is
 * noticed. Times in milliseconds by `performance.now()`.
 */
import { renewEarlyMs } from '../../agent-job/poll-waits.js';
import { ATTEMPT_CALL_MS, type AsyncAttempt, type ServerAnswer } from '../../temporal/activity-attempt.js';
import { nextAttemptIn, type PollAttempt, type PollJobResult } from './poll-attempt.js';

/** A call that got no answer is made again after this time. */
const TRY_AGAIN_MS = 2_000;

/** What a lease is of. */
export interface PollLeaseOptions {
  /** Another one for each job. */
  name: string;
  workflowId: string;
  run: PollAttempt;
  attempt: AsyncAttempt;
  /** The heartbeat timeout of the attempt. */
  leaseMs: number;
}

/** A worker's hold on one batch. */
export class PollLease {
  readonly name: string;
  readonly workflowId: string;
  readonly run: PollAttempt;
  /** This lease has ended, or another attempt holds the batch. */
  isOver = false;
  /** A poll is under way. */
  isPolling = false;
  /** When the next poll is due. */
  dueAt = 0;
  readonly #attempt: AsyncAttempt;
  readonly #leaseMs: number;
  /** From then on the server may have given the batch to another worker. */
  #expiresAt: number;
  /** Later than `#expiresAt` if a heartbeat got no answer: the server may have taken that heartbeat. */
  #mayBeHeldUntil: number;

  constructor({ name, workflowId, run, attempt, leaseMs }: PollLeaseOptions) {
    this.name = name;
    this.workflowId = workflowId;
    this.run = run;
    this.#attempt = attempt;
    this.#leaseMs = leaseMs;
    // The server counts from when it handed the attempt out: the first poll is part of it.
    this.#expiresAt = performance.now() - run.elapsedMs + leaseMs;
    this.#mayBeHeldUntil = this.#expiresAt;
  }

  /** At once if the server remembers failed polls: after a kill, the next attempt would go on from those. */
  get firstRenewAt(): number {
    return this.run.progress.hasChanged ? performance.now() : this.#renewAt;
  }

  /** Whether the lease is long enough for a wait and the poll after it. A longer wait costs less on the server. */
  lasts(waitMs: number): boolean {
    return waitMs < this.#leaseMs - renewEarlyMs(this.#leaseMs);
  }

  get isExpired(): boolean {
    return performance.now() >= this.#expiresAt;
  }

  /** Whether the server may still wait for this attempt, even if the lease has expired here. */
  get mayBeHeld(): boolean {
    return performance.now() < this.#mayBeHeldUntil;
  }

  /** Shows the server that the batch is polled. Returns when to do so next; null if the lease is over. */
  async renew(): Promise<number | null> {
    const { progress, shown } = this.run;
    const begunAt = performance.now();
    this.#mayBeHeldUntil = begunAt + ATTEMPT_CALL_MS + this.#leaseMs;
    const answer = await this.#attempt.heartbeat({ status: shown, polls: progress.polls, ...progress.saved });
    if (this.isOver) return null;
    if (answer === 'accepted') {
      this.#expiresAt = this.#mayBeHeldUntil = begunAt + this.#leaseMs;
      return this.#renewAt;
    }
    if (answer === 'unknown') return Math.min(performance.now() + TRY_AGAIN_MS, this.#expiresAt);
    if (answer === 'mustEnd') await this.handBack('an operator asked for a pause or a reset');
    if (answer === 'cancelled') await this.#end(() => this.#attempt.reportCancellation());
    return null;
  }

  async complete(result: PollJobResult): Promise<void> {
    await this.#end(() => this.#attempt.complete(result));
  }

  /** Ends the attempt; the server gives the batch to a worker when the next poll is due. */
  async handBack(why: string): Promise<void> {
    const { saved } = this.run.progress;
    await this.#end(() => this.#attempt.fail(nextAttemptIn(why, this.dueAt - performance.now()), saved));
  }

  /** A heartbeat renews a lease some time before its end. */
  get #renewAt(): number {
    return this.#expiresAt - renewEarlyMs(this.#leaseMs);
  }

  /** Calls the server until it answers, or no longer waits. */
  async #end(call: () => Promise<ServerAnswer>): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    while ((await call()) === 'unknown' && this.mayBeHeld) {
      await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS));
    }
  }
}

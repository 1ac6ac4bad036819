/**
 * The activity `pollJob`, a poll batch, and the batches that a worker holds after their function has ended. Decides
 * whether this worker or the Temporal server keeps the wait for the next poll. Polls cost nothing in history. Times in
 * milliseconds by `performance.now()`.
 */
import { AsyncResource } from 'node:async_hooks';
import { activityInfo, CompleteAsyncError, Context } from '@temporalio/activity';
import { AsyncAttempt } from '../../temporal/activity-attempt.js';
import type { Metrics } from '../metrics.js';
import { nextAttemptIn, PollAttempt } from './poll-attempt.js';
import type { NextStep, PollAttemptOptions, PollJobInput, PollJobResult } from './poll-attempt.js';
import { PollLease } from './poll-lease.js';
import { PollPacing } from './poll-pacing.js';

/** What `pollJob` needs of its worker. */
export interface PollJobOptions extends PollAttemptOptions {
  /** Goes on to poll after the first poll; null: each poll is an attempt. */
  heldPolls: HeldPolls | null;
}

/**
 * Makes the activity: it returns when something changed or ended. Otherwise it stays open for the worker to complete
 * while its waits are short enough for one lease, or fails retryably (BENIGN) with the wait until the next poll, as in
 * samples-typescript/polling/infrequent. Nothing else retries a poll.
 */
export function createPollJob(options: PollJobOptions): (input: PollJobInput) => Promise<PollJobResult> {
  const { heldPolls, shutdownSignal } = options;
  const pacing = heldPolls?.pacing ?? new PollPacing(shutdownSignal);
  return async (input) => {
    const info = activityInfo();
    // An operator may have taken the heartbeat timeout away.
    const leaseMs = (heldPolls && info.heartbeatTimeoutMs) || undefined;
    const run = new PollAttempt(input, info, { ...options, leaseMs });
    const { progress } = run;
    const { workflowId = '' } = info.workflowExecution ?? {};
    const name = JSON.stringify([workflowId, input.projectId, input.jobId]);
    heldPolls?.dropEarlier(name);
    try {
      await pacing.wait();
      const next = await pacing.count(() => run.poll());
      if (next.kind === 'end') return next.result;
      if (leaseMs !== undefined && next.isHealthy) {
        const lease = () => new PollLease({ name, workflowId, run, attempt: new AsyncAttempt(), leaseMs });
        if (heldPolls?.take(lease, next.ms)) throw new CompleteAsyncError();
      }
      throw nextAttemptIn(next.why, next.ms);
    } catch (error) {
      if (error instanceof CompleteAsyncError) throw error;
      progress.skip();
      // A heartbeat costs an action: only if there is something to remember.
      if (progress.hasChanged) Context.current().heartbeat(progress.saved);
      throw error;
    }
  };
}

/** Each takes a few KiB. */
const MAX_LEASES = 50_000;
/** The number of leases that are handed back at once, if all end. */
const CALLS_AT_ONCE = 100;
/** A poll may begin 200 ms late: one timer serves all. */
const TICK_MS = 200;
const LEAVING = 'the worker is shutting down';

/** What is due for a lease: a poll, one that has waited for its slot, or a heartbeat. */
type Due = { lease: PollLease; what: 'poll' | 'pollInSlot' | 'renew' };

/**
 * The poll batches of thousands of jobs between their polls. It wakes a few times a second and polls all that is due:
 * polls that leave together cost a third of polls that leave one by one.
 */
export class HeldPolls {
  readonly pacing: PollPacing;
  readonly #shutdownSignal: AbortSignal;
  readonly #metrics: Pick<Metrics, 'pollBegins'>;
  /** What runs later belongs to no activity: it would keep the context of the one that began it. */
  readonly #scope = new AsyncResource('HeldPolls');
  readonly #leases = new Map<string, PollLease>();
  /** What is due, by the number of the tick. */
  readonly #dueAtTick = new Map<number, Due[]>();
  readonly #timer: NodeJS.Timeout;
  /** The last tick that was handled. */
  #tick = Math.floor(performance.now() / TICK_MS);
  /** What is handed back as soon as there is a call for it. */
  readonly #leaving: { lease: PollLease; why: string }[] = [];
  #calls = 0;
  /** What must have ended before the worker's connection closes. */
  readonly #open = new Set<Promise<void>>();

  constructor(shutdownSignal: AbortSignal, metrics: Pick<Metrics, 'pollBegins'>) {
    this.#metrics = metrics;
    this.pacing = new PollPacing(shutdownSignal);
    this.#shutdownSignal = shutdownSignal;
    this.#timer = setInterval(() => this.#handleDue(), TICK_MS).unref();
    shutdownSignal.addEventListener('abort', () => this.#scope.runInAsyncScope(() => this.#handBackAll()));
  }

  /** The number of jobs that it polls. */
  get size(): number {
    return this.#leases.size;
  }

  /** A later attempt polls this job: the server wants no answer of the one that is held here. */
  dropEarlier(name: string): void {
    const earlier = this.#leases.get(name);
    if (!earlier) return;
    this.#scope.runInAsyncScope(() => this.#end(earlier, earlier.handBack('another poll of this job has begun')));
  }

  /** Takes a job over, whose next poll is due after `waitMs`; false if the server must keep the wait. */
  take(makeLease: () => PollLease, waitMs: number): boolean {
    if (this.#shutdownSignal.aborted || this.#leases.size >= MAX_LEASES) return false;
    const lease = makeLease();
    if (!lease.lasts(waitMs)) return false;
    this.dropEarlier(lease.name);
    this.#leases.set(lease.name, lease);
    this.#pollAfter(lease, waitMs);
    this.#schedule({ lease, what: 'renew' }, lease.firstRenewAt);
    return true;
  }

  /** Hands back what it holds of these workflows, but for a batch that is polling. */
  handBack(workflowIds: ReadonlySet<string>, why: string): void {
    const leaving = this.#idle.filter(({ workflowId }) => workflowIds.has(workflowId));
    this.#scope.runInAsyncScope(() => this.#handBackSome(leaving, why));
  }

  /** Resolves when the server knows of all that has ended here; call it after shutdown has begun. */
  async ended(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open);
  }

  get #idle(): PollLease[] {
    return [...this.#leases.values()].filter(({ isPolling }) => !isPolling);
  }

  #pollAfter(lease: PollLease, waitMs: number): void {
    lease.dueAt = performance.now() + waitMs;
    this.#schedule({ lease, what: 'poll' }, lease.dueAt);
  }

  /** At `at` or soon after, never before. */
  #schedule(due: Due, at: number): void {
    const tick = Math.max(Math.ceil(at / TICK_MS), this.#tick + 1);
    const others = this.#dueAtTick.get(tick);
    if (others) others.push(due);
    else this.#dueAtTick.set(tick, [due]);
  }

  /** In the order in which things are due, even after this process stood still. */
  #handleDue(): void {
    this.#tick = Math.floor(performance.now() / TICK_MS);
    const ticks = [...this.#dueAtTick.keys()].filter((tick) => tick <= this.#tick).sort((one, other) => one - other);
    for (const tick of ticks) {
      const all = this.#dueAtTick.get(tick)!;
      this.#dueAtTick.delete(tick);
      for (const due of all) this.#handle(due);
    }
  }

  #handle({ lease, what }: Due): void {
    if (lease.isOver || this.#shutdownSignal.aborted) return;
    if (lease.isExpired) this.#expire(lease);
    else if (what === 'renew') this.#keep(this.#renew(lease));
    else this.#beginPoll(lease, what === 'pollInSlot');
  }

  #expire(lease: PollLease): void {
    // Otherwise no worker would poll the job for a whole further lease, if the server took the heartbeat.
    if (lease.mayBeHeld) this.#handBackSome([lease], 'Temporal did not answer');
    // This process stood still beyond its lease: another worker polls the job.
    else this.#forget(lease);
  }

  #beginPoll(lease: PollLease, hasSlot: boolean): void {
    const { ms, isShort } = hasSlot ? { ms: 0, isShort: true } : this.pacing.reserve();
    if (ms <= 0) return this.#keep(this.#poll(lease));
    this.#schedule({ lease, what: isShort ? 'pollInSlot' : 'poll' }, performance.now() + ms);
  }

  async #poll(lease: PollLease): Promise<void> {
    let next: NextStep;
    this.#metrics.pollBegins((performance.now() - lease.dueAt) / 1_000);
    lease.isPolling = true;
    try {
      next = await this.pacing.count(() => lease.run.poll());
    } catch (error) {
      // Only a shutdown makes a poll throw, or a defect: either way another attempt polls.
      lease.dueAt = performance.now();
      const failed = error instanceof Error ? error.message : 'the poll failed';
      // The error of a shutdown already names the time of the next poll.
      return this.#end(lease, lease.handBack(this.#shutdownSignal.aborted ? LEAVING : failed));
    } finally {
      lease.isPolling = false;
    }
    if (lease.isOver) return;
    if (next.kind === 'end') return this.#end(lease, lease.complete(next.result));
    const { ms, why, isHealthy } = next;
    if (isHealthy && lease.lasts(ms) && !this.#shutdownSignal.aborted) return this.#pollAfter(lease, ms);
    lease.dueAt = performance.now() + ms;
    this.#end(lease, lease.handBack(why));
  }

  async #renew(lease: PollLease): Promise<void> {
    const nextAt = await lease.renew();
    if (nextAt === null) this.#forget(lease);
    else this.#schedule({ lease, what: 'renew' }, nextAt);
  }

  /** Shutdown ends the polls that are under way, and so their batches. */
  #handBackAll(): void {
    clearInterval(this.#timer);
    this.#dueAtTick.clear();
    this.#handBackSome(this.#idle, LEAVING);
  }

  /** All at once would be thousands of calls. */
  #handBackSome(leases: PollLease[], why: string): void {
    for (const lease of leases) {
      this.#leaving.push({ lease, why });
      if (this.#calls < CALLS_AT_ONCE) this.#keep(this.#handBackNext());
    }
  }

  async #handBackNext(): Promise<void> {
    this.#calls += 1;
    for (let next = this.#leaving.pop(); next; next = this.#leaving.pop()) {
      const { lease, why } = next;
      const ending = lease.handBack(why);
      this.#forget(lease);
      await ending;
    }
    this.#calls -= 1;
  }

  #end(lease: PollLease, ending: Promise<void>): void {
    this.#forget(lease);
    this.#keep(ending);
  }

  #forget(lease: PollLease): void {
    lease.isOver = true;
    if (this.#leases.get(lease.name) === lease) this.#leases.delete(lease.name);
  }

  #keep(work: Promise<void>): void {
    this.#open.add(work);
    void work.finally(() => this.#open.delete(work));
  }
}

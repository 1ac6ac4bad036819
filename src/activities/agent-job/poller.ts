/**
 * The one poller of a worker: it holds the poll batches of thousands of jobs between their reads, wakes a few times a
 * second and reads all that is due. Reads that leave together cost a third of reads that leave one by one, and a batch
 * that stays here costs the server nothing but a heartbeat. Times in milliseconds by `performance.now()`.
 */
import { AsyncResource } from 'node:async_hooks';
import { RENEW_EARLY_MS } from '../../agent-job/poll-plan.js';
import { CALL_LIMIT_MS, type AsyncAttempt, type ServerAnswer } from '../../temporal/async-attempt.js';
import type { Metrics } from '../metrics.js';
import { nextAttemptIn, type NextStep, type PollJobResult, type PollRun } from './poll-run.js';
import { ReadStarts } from './read-starts.js';

/** Each takes a few KiB. */
const MAX_LEASES = 50_000;
/** How many calls of the Temporal server may be under way at once, where all leases end. */
const CALLS_AT_ONCE = 100;

/** A call that got no answer is made again after this time. */
const TRY_AGAIN_MS = 2_000;
/** The clock of this machine may go ahead of the time that passes here by so much. */
const CLOCK_JUMP_MS = 5_000;
/** So late a thing may be handled. */
const TICK_MS = 200;

const LEAVING = 'the worker is shutting down';

/** A read has its turn already where it had to wait for it. */
type Due = { lease: PollLease; what: 'read' | 'renew'; turnAt?: number | undefined };

export class Poller {
  readonly starts: ReadStarts;
  readonly #shutdownSignal: AbortSignal;
  readonly #metrics: Pick<Metrics, 'readBegins'>;
  /** What runs later belongs to no activity: else it would keep the context of the one that began it. */
  readonly #scope = new AsyncResource('Poller');
  readonly #leases = new Map<string, PollLease>();
  readonly #queue = new TickQueue((due) => this.#handle(due));
  /** What is handed back as soon as there is a call for it. */
  readonly #leaving: { lease: PollLease; why: string }[] = [];
  #calls = 0;
  /** What must have ended before the worker's connection closes. */
  readonly #open = new Set<Promise<void>>();

  constructor(shutdownSignal: AbortSignal, metrics: Pick<Metrics, 'readBegins'>) {
    this.#metrics = metrics;
    this.starts = new ReadStarts(shutdownSignal);
    this.#shutdownSignal = shutdownSignal;
    shutdownSignal.addEventListener('abort', () => this.#scope.runInAsyncScope(() => this.#handBackAll()));
  }

  /** How many jobs it polls. */
  get size(): number {
    return this.#leases.size;
  }

  /** A later attempt polls this job: the server wants no answer of the one that is held here. */
  dropEarlier(name: string): void {
    const earlier = this.#leases.get(name);
    if (!earlier) return;
    this.#scope.runInAsyncScope(() => this.#end(earlier, earlier.handBack('a later poll of this job has begun')));
  }

  /** Takes a job over, whose next read is due after `waitMs`; false where the server must keep the wait. */
  take(makeLease: () => PollLease, waitMs: number): boolean {
    if (this.#shutdownSignal.aborted || this.#leases.size >= MAX_LEASES) return false;
    const lease = makeLease();
    if (!lease.lasts(waitMs) || this.#isLaterHeld(lease)) return false;
    this.dropEarlier(lease.name);
    lease.dueAt = performance.now() + waitMs;
    this.#leases.set(lease.name, lease);
    this.#queue.add({ lease, what: 'read' }, lease.dueAt);
    this.#queue.add({ lease, what: 'renew' }, lease.firstRenewAt);
    return true;
  }

  /** Hands back what it holds of these workflows, but for a batch that is reading. */
  handBack(workflowIds: ReadonlySet<string>, why: string): void {
    const idle = [...this.#leases.values()].filter(
      ({ isReading, workflowId }) => !isReading && workflowIds.has(workflowId),
    );
    this.#scope.runInAsyncScope(() => this.#handBackSome(idle, why));
  }

  /** Resolves when the server knows of all that has ended here; call it after shutdown has begun. */
  async ended(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open);
  }

  /** Its first read outlasted the begin of a later attempt: the server wants no answer of it any more. */
  #isLaterHeld({ name, run }: PollLease): boolean {
    const held = this.#leases.get(name);
    return held !== undefined && held.run.elapsedMs < run.elapsedMs;
  }

  #handle({ lease, what, turnAt }: Due): void {
    if (lease.isOver || this.#shutdownSignal.aborted) return;
    if (lease.isExpired) this.#expire(lease);
    else if (lease.wasSuspended) this.#end(lease, lease.handBack('this machine was suspended, or its clock was set'));
    else if (what === 'renew') this.#keep(this.#renew(lease));
    else this.#beginRead(lease, turnAt);
  }

  #expire(lease: PollLease): void {
    // Otherwise no worker would poll the job for a whole further lease, if the server took the heartbeat.
    if (lease.mayBeHeld) this.#handBackSome([lease], 'Temporal did not answer');
    // This process stood still for too long: another worker polls the job.
    else this.#forget(lease);
  }

  #beginRead(lease: PollLease, turnAt = -Infinity): void {
    const { ms, isShort } = this.starts.isGood(turnAt) ? { ms: 0, isShort: true } : this.starts.reserve();
    const at = performance.now() + ms;
    if (ms > 0) this.#queue.add({ lease, what: 'read', turnAt: isShort ? at : undefined }, at);
    else this.#keep(this.#read(lease));
  }

  async #read(lease: PollLease): Promise<void> {
    let next: NextStep;
    this.#metrics.readBegins((performance.now() - lease.dueAt) / 1_000);
    lease.isReading = true;
    try {
      next = await this.starts.count(() => lease.run.read());
    } catch (error) {
      // Only a shutdown makes a read throw, or a defect: either way another attempt reads.
      lease.dueAt = performance.now();
      const failed = error instanceof Error ? error.message : 'the read failed';
      // What a shutdown makes it throw says already when the next read is.
      const why = this.#shutdownSignal.aborted ? LEAVING : failed;
      return this.#endNow(lease, lease.handBack(why));
    } finally {
      lease.isReading = false;
    }
    if (lease.isOver) return;
    if (next.kind === 'end') return this.#endNow(lease, lease.complete(next.result));
    lease.dueAt = performance.now() + next.ms;
    const stays = next.isHealthy && lease.lasts(next.ms) && !this.#shutdownSignal.aborted;
    if (stays) this.#queue.add({ lease, what: 'read' }, lease.dueAt);
    else await this.#endNow(lease, lease.handBack(next.why));
  }

  async #renew(lease: PollLease): Promise<void> {
    const nextAt = await lease.renew();
    if (nextAt === null) this.#forget(lease);
    else this.#queue.add({ lease, what: 'renew' }, nextAt);
  }

  /** What is reading ends by itself: shutdown ends each read. */
  #handBackAll(): void {
    this.#queue.close();
    const idle = [...this.#leases.values()].filter(({ isReading }) => !isReading);
    this.#handBackSome(idle, LEAVING);
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
      await this.#endNow(next.lease, next.lease.handBack(next.why));
    }
    this.#calls -= 1;
  }

  #end(lease: PollLease, ending: Promise<void>): void {
    this.#keep(this.#endNow(lease, ending));
  }

  async #endNow(lease: PollLease, ending: Promise<void>): Promise<void> {
    this.#forget(lease);
    await ending;
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

/** Thousands of things by the time at which each is due: one timer for all, which fires a few times a second. */
class TickQueue {
  readonly #onDue: (due: Due) => void;
  /** By the number of the tick at which they are due. */
  readonly #byTick = new Map<number, Due[]>();
  readonly #timer: NodeJS.Timeout;
  /** The last tick that was handled. */
  #tick = Math.floor(performance.now() / TICK_MS);

  constructor(onDue: (due: Due) => void) {
    this.#onDue = onDue;
    this.#timer = setInterval(() => this.#handleDue(), TICK_MS).unref();
  }

  /** Never handles it before `at`: a last read must not come before its deadline. */
  add(due: Due, at: number): void {
    const tick = Math.max(Math.ceil(at / TICK_MS), this.#tick + 1);
    const items = this.#byTick.get(tick);
    if (items) items.push(due);
    else this.#byTick.set(tick, [due]);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#byTick.clear();
  }

  /** In the order in which they are due, also where this process stood still. */
  #handleDue(): void {
    const now = Math.floor(performance.now() / TICK_MS);
    const ticks = [...this.#byTick.keys()].filter((tick) => tick <= now).sort((one, other) => one - other);
    this.#tick = now;
    for (const tick of ticks) {
      const items = this.#byTick.get(tick)!;
      this.#byTick.delete(tick);
      items.forEach(this.#onDue);
    }
  }
}

export interface PollLeaseOptions {
  /** Tells the polls of one job from those of another. */
  name: string;
  workflowId: string;
  run: PollRun;
  attempt: AsyncAttempt;
  /** The heartbeat timeout of the attempt. */
  leaseMs: number;
}

/**
 * A poll batch that this worker holds after its activity's function has ended. The server takes it for dead, and gives
 * it to another worker, where no heartbeat comes within the heartbeat timeout: so a worker that was killed is noticed.
 */
export class PollLease {
  readonly name: string;
  readonly workflowId: string;
  readonly run: PollRun;
  /** It has ended, or another attempt holds the batch. */
  isOver = false;
  /** A read is under way. */
  isReading = false;
  /** When the next read is due. */
  dueAt = 0;
  readonly #attempt: AsyncAttempt;
  readonly #leaseMs: number;
  /** From then on the server may have given the batch to another worker. */
  #expiresAt: number;
  /** Later where a heartbeat got no answer: the server may have taken it. */
  #mayBeHeldUntil: number;
  readonly #clockOffset = clockOffset();

  constructor({ name, workflowId, run, attempt, leaseMs }: PollLeaseOptions) {
    this.name = name;
    this.workflowId = workflowId;
    this.run = run;
    this.#attempt = attempt;
    this.#leaseMs = leaseMs;
    // The server counts from when it handed the attempt out: the first read is part of it.
    this.#expiresAt = performance.now() - run.elapsedMs + leaseMs;
    this.#mayBeHeldUntil = this.#expiresAt;
  }

  /** When the next heartbeat is due. */
  get renewAt(): number {
    return this.#expiresAt - RENEW_EARLY_MS;
  }

  /** At once where the server remembers failed reads: else the next attempt would go on from them, after a kill. */
  get firstRenewAt(): number {
    return this.run.progress.hasNews ? performance.now() : this.renewAt;
  }

  /**
   * Whether it may last for this wait and a read after it. The server keeps longer waits, at the price of one attempt;
   * a lease would cost more.
   */
  lasts(waitMs: number): boolean {
    return waitMs < this.#leaseMs - RENEW_EARLY_MS;
  }

  get isExpired(): boolean {
    return performance.now() >= this.#expiresAt;
  }

  /** Whether the server may still wait for this attempt, also after the lease has expired as far as is known here. */
  get mayBeHeld(): boolean {
    return performance.now() < this.#mayBeHeldUntil;
  }

  /**
   * This machine was suspended, or its clock was set. `performance.now()` stood still: it says neither whether the
   * lease has expired nor what the server's time is.
   */
  get wasSuspended(): boolean {
    return clockOffset() - this.#clockOffset > CLOCK_JUMP_MS;
  }

  /** Shows the server that the batch is polled. Returns when to do so next; null where the lease is over. */
  async renew(): Promise<number | null> {
    const { progress, shown } = this.run;
    const begunAt = performance.now();
    this.#mayBeHeldUntil = begunAt + CALL_LIMIT_MS + this.#leaseMs;
    const answer = await this.#attempt.heartbeat({ status: shown, polls: progress.reads, ...progress.saved });
    if (this.isOver) return null;
    if (answer === 'accepted') this.#expiresAt = this.#mayBeHeldUntil = begunAt + this.#leaseMs;
    else if (answer === 'unknown') return Math.min(performance.now() + TRY_AGAIN_MS, this.#expiresAt);
    else if (answer === 'mustEnd') await this.handBack('an operator asked for a pause or a reset');
    else if (answer === 'cancelled') await this.#end(() => this.#attempt.reportCancellation());
    else this.#forget();
    return this.isOver ? null : this.renewAt;
  }

  async complete(result: PollJobResult): Promise<void> {
    await this.#end(() => this.#attempt.complete(result));
  }

  /** Ends the attempt; the server gives the batch to a worker when the next read is due. */
  async handBack(why: string): Promise<void> {
    const { saved } = this.run.progress;
    await this.#end(() => this.#attempt.fail(nextAttemptIn(why, this.dueAt - performance.now()), saved));
  }

  /** The server wants no answer of this attempt any more. */
  #forget(): null {
    this.isOver = true;
    return null;
  }

  /** Tells the server until it answers, or no longer waits. */
  async #end(tell: () => Promise<ServerAnswer>): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    while ((await tell()) === 'unknown' && this.mayBeHeld) {
      await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS));
    }
  }
}

function clockOffset(): number {
  return Date.now() - performance.now();
}

/**
 * The one poller of a worker: it holds the poll batches of thousands of jobs between their reads, wakes a few times a
 * second and reads all that is due. Reads that leave together cost a third of reads that leave one by one, and a batch
 * that stays here costs the server nothing but a heartbeat. Times in milliseconds by `performance.now()`.
 */
import { AsyncResource } from 'node:async_hooks';
import type { Metrics } from '../metrics.js';
import type { PollLease } from './poll-lease.js';
import type { NextStep } from './poll-run.js';
import { ReadStarts } from './read-starts.js';
import { TickQueue } from './tick-queue.js';

/** Each takes a few KiB. */
const MAX_LEASES = 50_000;
/** How many leases are handed back at once, if all end. */
const CALLS_AT_ONCE = 100;

const LEAVING = 'the worker is shutting down';

/** What is due for a lease: a read, one that has waited for its slot, or a heartbeat. */
type Due = { lease: PollLease; what: 'read' | 'readInSlot' | 'renew' };

export class Poller {
  readonly starts: ReadStarts;
  readonly #shutdownSignal: AbortSignal;
  readonly #metrics: Pick<Metrics, 'readBegins'>;
  /** What runs later belongs to no activity: it would keep the context of the one that began it. */
  readonly #scope = new AsyncResource('Poller');
  readonly #leases = new Map<string, PollLease>();
  readonly #queue = new TickQueue<Due>((due) => this.#handle(due));
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

  /** Takes a job over, whose next read is due after `waitMs`; false if the server must keep the wait. */
  take(makeLease: () => PollLease, waitMs: number): boolean {
    if (this.#shutdownSignal.aborted || this.#leases.size >= MAX_LEASES) return false;
    const lease = makeLease();
    if (!lease.lasts(waitMs) || this.#isLaterHeld(lease)) return false;
    this.dropEarlier(lease.name);
    this.#leases.set(lease.name, lease);
    this.#readAfter(lease, waitMs);
    this.#queue.add({ lease, what: 'renew' }, lease.firstRenewAt);
    return true;
  }

  /** Hands back what it holds of these workflows, but for a batch that is reading. */
  handBack(workflowIds: ReadonlySet<string>, why: string): void {
    const held = this.#idle.filter(({ workflowId }) => workflowIds.has(workflowId));
    this.#scope.runInAsyncScope(() => this.#handBackSome(held, why));
  }

  /** Resolves when the server knows of all that has ended here; call it after shutdown has begun. */
  async ended(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open);
  }

  get #idle(): PollLease[] {
    return [...this.#leases.values()].filter(({ isReading }) => !isReading);
  }

  /** Its first read outlasted the begin of a later attempt: the server wants no answer of it any more. */
  #isLaterHeld({ name, run }: PollLease): boolean {
    const held = this.#leases.get(name);
    return held !== undefined && held.run.elapsedMs < run.elapsedMs;
  }

  #readAfter(lease: PollLease, waitMs: number): void {
    lease.dueAt = performance.now() + waitMs;
    this.#queue.add({ lease, what: 'read' }, lease.dueAt);
  }

  #handle({ lease, what }: Due): void {
    if (lease.isOver || this.#shutdownSignal.aborted) return;
    if (lease.isExpired) this.#expire(lease);
    else if (lease.wasSuspended) this.#end(lease, lease.handBack('this machine was suspended, or its clock was set'));
    else if (what === 'renew') this.#keep(this.#renew(lease));
    else this.#beginRead(lease, what === 'readInSlot');
  }

  #expire(lease: PollLease): void {
    // Otherwise no worker would poll the job for a whole further lease, if the server took the heartbeat.
    if (lease.mayBeHeld) this.#handBackSome([lease], 'Temporal did not answer');
    // This process stood still for too long: another worker polls the job.
    else this.#forget(lease);
  }

  #beginRead(lease: PollLease, hasSlot: boolean): void {
    const { ms, isShort } = hasSlot ? { ms: 0, isShort: true } : this.starts.reserve();
    if (ms <= 0) return this.#keep(this.#read(lease));
    this.#queue.add({ lease, what: isShort ? 'readInSlot' : 'read' }, performance.now() + ms);
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
      return this.#end(lease, lease.handBack(this.#shutdownSignal.aborted ? LEAVING : failed));
    } finally {
      lease.isReading = false;
    }
    if (lease.isOver) return;
    if (next.kind === 'end') return this.#end(lease, lease.complete(next.result));
    this.#goOn(lease, next);
  }

  #goOn(lease: PollLease, { ms, why, isHealthy }: NextStep & { kind: 'wait' }): void {
    if (isHealthy && lease.lasts(ms) && !this.#shutdownSignal.aborted) return this.#readAfter(lease, ms);
    lease.dueAt = performance.now() + ms;
    this.#end(lease, lease.handBack(why));
  }

  async #renew(lease: PollLease): Promise<void> {
    const nextAt = await lease.renew();
    if (nextAt === null) this.#forget(lease);
    else this.#queue.add({ lease, what: 'renew' }, nextAt);
  }

  /** What is reading ends by itself: shutdown ends each read. */
  #handBackAll(): void {
    this.#queue.close();
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

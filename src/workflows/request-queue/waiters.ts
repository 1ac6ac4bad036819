/** Who waits in a queue of requests: by priority, then by when they asked, then by workflow id. Pure. */
import type { Priority } from '../../contract.js';
import { jsonBytes } from '../../contract/input-checks.js';

/** A workflow that waits for its turn. */
export interface Waiter {
  workflowId: string;
  priority: Priority;
  askedAt: number;
  /** How many requests it wants to send. */
  requests: number;
  /** Requests of it that were answered 429. */
  refusals: number;
}

/** A waiter as continue-as-new hands it on: there may be many. */
export type CarriedWaiter = [
  workflowId: string,
  priority: Priority,
  askedAt: number,
  requests: number,
  refusals?: number,
];

/** So many may wait, and so much may continue-as-new hand on of them: the server takes 2 MiB at most. */
const LIMITS = { waiters: 20_000, bytes: 1_500_000 };
/** A carried waiter is its id and at most so much. */
const BYTES_BESIDES_ID = 32;
/** So many at the head take turns at tries that are likely to be refused. */
const TRY_AMONG = 10;

export class Waiters {
  /** The next one first. */
  readonly #order: Waiter[];
  #bytes = 0;

  constructor(carried: CarriedWaiter[]) {
    this.#order = carried.map(([workflowId, priority, askedAt, requests, refusals = 0]) => {
      return { workflowId, priority, askedAt, requests, refusals };
    });
    for (const waiter of this.#order) this.#bytes += bytesOf(waiter);
  }

  get count(): number {
    return this.#order.length;
  }

  /** Whose turn is next. */
  get first(): Waiter | undefined {
    return this.#order[0];
  }

  /** Of those whose turn is near, the one that was refused least often. */
  get leastRefused(): Waiter | undefined {
    const near = this.head(TRY_AMONG);
    const least = Math.min(...near.map(({ refusals }) => refusals));
    return near.find(({ refusals }) => refusals === least);
  }

  /** The first so many, in order. */
  head(count: number): Waiter[] {
    return this.#order.slice(0, count);
  }

  /** Adds one; one that waits already keeps the time that it asked. Returns those that must leave for want of room. */
  join(asked: Waiter): Waiter[] {
    const before = this.remove(asked.workflowId);
    const askedAt = Math.min(asked.askedAt, before?.askedAt ?? Infinity);
    const waiter = { ...asked, askedAt, refusals: Math.max(asked.refusals, before?.refusals ?? 0) };
    this.#order.splice(this.#placeFor(waiter), 0, waiter);
    this.#bytes += bytesOf(waiter);
    const left: Waiter[] = [];
    while (this.#order.length > LIMITS.waiters || this.#bytes > LIMITS.bytes) {
      const last = this.#order.at(-1) as Waiter;
      this.remove(last.workflowId);
      left.push(last);
    }
    return left;
  }

  remove(workflowId: string): Waiter | undefined {
    const [waiter] = this.#order.splice(this.#indexOf(workflowId) ?? this.count, 1);
    if (waiter) this.#bytes -= bytesOf(waiter);
    return waiter;
  }

  /** From 1; and how many requests are wanted up to it, its own included. Null where it does not wait. */
  placeOf(workflowId: string): { position: number; requests: number } | null {
    const index = this.#indexOf(workflowId);
    if (index === null) return null;
    const requests = this.head(index + 1).reduce((sum, waiter) => sum + waiter.requests, 0);
    return { position: index + 1, requests };
  }

  carry(): CarriedWaiter[] {
    return this.#order.map(({ workflowId, priority, askedAt, requests, refusals }) =>
      refusals > 0 ? [workflowId, priority, askedAt, requests, refusals] : [workflowId, priority, askedAt, requests],
    );
  }

  #indexOf(workflowId: string): number | null {
    const index = this.#order.findIndex((waiter) => waiter.workflowId === workflowId);
    return index < 0 ? null : index;
  }

  /** Where a waiter is to be inserted: thousands may join within one workflow task. */
  #placeFor(waiter: Waiter): number {
    let low = 0;
    let high = this.#order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.#order[middle] as Waiter, waiter)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isBefore(a: Waiter, b: Waiter): boolean {
  if (a.priority !== b.priority) return a.priority < b.priority;
  return a.askedAt === b.askedAt ? a.workflowId < b.workflowId : a.askedAt < b.askedAt;
}

function bytesOf({ workflowId }: Waiter): number {
  return jsonBytes(workflowId) + BYTES_BESIDES_ID;
}

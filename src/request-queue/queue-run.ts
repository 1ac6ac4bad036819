/**
 * The state of a queue of requests: the workflows that wait, the turns in flight, and the budget. Decides whose turn is
 * next, how long it is good, and what a report means. Pure; the clock is an argument. Times in milliseconds.
 */
import type { BudgetFacts, JoinRequest, Priority, QueueName, RequestReport, Turn } from '../contract.js';
import { jsonBytes } from '../contract/shared.js';
import { Budget, type BudgetData } from './budget.js';

/** A workflow that waits for its turn, which it wants for a number of requests. */
export type Waiter = Required<Pick<JoinRequest, 'workflowId' | 'priority' | 'askedAt' | 'requests'>>;

/** A waiter as continue-as-new hands it on: there may be many. */
type CarriedWaiter = [workflowId: string, priority: Priority, askedAt: number, requests: number];

/** What continue-as-new may hand on of those that wait: the server takes 2 MiB at most. */
const MAX_BYTES = 1_500_000;
/** What a carried waiter has at most beside its id. */
const BYTES_BESIDES_ID = 32;

/** What continue-as-new hands on. */
export interface QueueData {
  /** Begins the name of every turn of this queue. */
  name: string;
  /** The number of the next turn. */
  nextTurn: number;
  waiters: CarriedWaiter[];
  turns: [number: number, turn: TurnInFlight][];
  budget: BudgetData | null;
  /** A message has come: until then the queue waits for one. */
  wasUsed: boolean;
}

/** A turn, and whose it is. */
export interface GivenTurn {
  workflowId: string;
  turn: Turn;
}

/** A turn that was given and not yet reported. */
interface TurnInFlight {
  /** Who has it; null once that workflow asks again, for it may have used the turn. */
  by: Waiter | null;
  requests: number;
  givenAt: number;
  until: number;
}

/** A turn of one request is good for this time, and one of more requests longer: the time that each may take. */
const TURN_MS = 60_000;
const FURTHER_REQUEST_MS = 20_000;
/** In this time after the end of its turn a request may still arrive, and its report may be on its way. */
const REPORT_MS = 30_000;
/** The most requests of one turn: an odd message must not hold a project up. */
const MAX_REQUESTS: Record<QueueName['operation'], number> = { create: 1, message: 1, visitors: 120 };

/** One run of a queue. */
export class QueueRun {
  readonly waiters: Waiters;
  readonly budget: Budget;
  readonly #turns: Map<number, TurnInFlight>;
  readonly #data: Pick<QueueData, 'name' | 'nextTurn' | 'wasUsed'>;
  readonly #now: () => number;
  readonly #operation: QueueName['operation'];
  #latest: number;

  constructor(operation: QueueName['operation'], { waiters, turns, budget, ...data }: QueueData, now: () => number) {
    this.#operation = operation;
    this.waiters = new Waiters(waiters);
    this.budget = new Budget(budget, now);
    this.#turns = new Map(turns);
    this.#data = data;
    // Between two runs the clock may have been set back.
    this.#latest = budget === null ? now() : Infinity;
    this.#now = now;
  }

  get turnsInFlight(): number {
    return this.#turns.size;
  }

  /** The number of requests that the turns in flight hold. */
  get requestsInFlight(): number {
    return [...this.#turns.values()].reduce((sum, { requests }) => sum + requests, 0);
  }

  /** A workflow asks for its turn. Returns those that must leave for want of room. */
  join({ workflowId, priority, askedAt, requests = 1, report, ...facts }: JoinRequest): Waiter[] {
    this.#takeBudget(facts);
    if (report) this.#apply(report);
    for (const turn of this.#turns.values()) if (turn.by?.workflowId === workflowId) turn.by = null;
    const asked = {
      askedAt: Math.min(askedAt, this.#now()),
      requests: Math.min(requests, MAX_REQUESTS[this.#operation]),
    };
    return this.waiters.join({ workflowId, priority, ...asked });
  }

  /** A worker reports how a request ended. */
  report(report: RequestReport & BudgetFacts): void {
    this.#takeBudget(report);
    this.#apply(report);
  }

  /** The next turn; its workflow waits no more. Null if none may be given now. */
  nextTurn(): GivenTurn | null {
    const { first } = this.waiters;
    const { nextTurnAt } = this;
    const givenAt = this.#now();
    if (!first || nextTurnAt === null || nextTurnAt > givenAt) return null;
    const { workflowId } = first;
    this.waiters.remove(workflowId);
    const requests = this.budget.requestsOf(first.requests);
    const until = givenAt + TURN_MS + (requests - 1) * FURTHER_REQUEST_MS;
    const number = this.#data.nextTurn++;
    this.#turns.set(number, { by: first, requests, givenAt, until });
    const turn = { id: `${this.#data.name}:${number}`, operation: this.#operation, until, requests };
    return { workflowId, turn };
  }

  /** Turns that were not reported in time count as used. Returns the number of their requests. */
  expireTurns(): number {
    this.#followClock();
    let expired = 0;
    for (const [number, { until, requests }] of this.#turns) {
      if (until + REPORT_MS > this.#now()) continue;
      this.#turns.delete(number);
      this.budget.spend(requests, until + REPORT_MS);
      expired += requests;
    }
    return expired;
  }

  /** When the next turn may be given, as far as is known now; null if that takes a report. */
  get nextTurnAt(): number | null {
    if (this.#mustWaitForEarlier()) return null;
    return this.budget.nextTurnAt(this.waiters.first?.requests ?? 1, this.turnsInFlight, this.requestsInFlight);
  }

  /** When each request that waits is expected to be sent, the first in line first; empty if no limit is set. */
  sendTimes(requests: number): number[] {
    return this.budget.sendTimes(this.requestsInFlight + requests).slice(this.requestsInFlight);
  }

  /** The next time at which anything can change by itself. */
  get wakeAt(): number {
    if (this.waiters.count === 0 && this.#turns.size === 0) return this.#endsAt;
    const nextTurnAt = this.waiters.count === 0 ? null : this.nextTurnAt;
    return Math.min(nextTurnAt ?? Infinity, ...[...this.#turns.values()].map(({ until }) => until + REPORT_MS));
  }

  /** No workflow waits, nothing is in flight, and nothing need be remembered. */
  get isOver(): boolean {
    return this.waiters.count === 0 && this.#turns.size === 0 && this.#endsAt <= this.#now();
  }

  /** The same queue at a later time. */
  asOf(now: number): QueueRun {
    return new QueueRun(this.#operation, this.carry(), () => now);
  }

  carry(): QueueData {
    return { ...this.#data, waiters: this.waiters.carry(), turns: [...this.#turns], budget: this.budget.data };
  }

  get #endsAt(): number {
    return this.#data.wasUsed ? this.budget.remembersUntil : Infinity;
  }

  /**
   * Scans that share a budget shall end one after the other. So from the second half of the budget on, none gets a turn
   * while one that goes before it still has one, and may ask for another.
   */
  #mustWaitForEarlier(): boolean {
    const { first } = this.waiters;
    if (this.#operation !== 'visitors' || !first) return false;
    if (!this.budget.isHalfUsed(this.requestsInFlight + first.requests)) return false;
    return [...this.#turns.values()].some(({ by }) => by !== null && isBefore(by, first));
  }

  #takeBudget(facts: BudgetFacts): void {
    this.#data.wasUsed = true;
    this.budget.take(facts);
  }

  /** What a report says about a turn. After the turn's end it no longer changes what was spent; a 429 still counts. */
  #apply({ turn: name, outcome, at, requests = 1, retryAfterMs = null }: RequestReport): void {
    const number = this.#numberOf(name);
    const turn = number === null ? undefined : this.#turns.get(number);
    if (number !== null) this.#turns.delete(number);
    const isLate = number !== null && !turn;
    const sent = outcome === 'unsent' || isLate ? 0 : outcome === 'throttled' ? requests - 1 : requests;
    // A worker does not know how long its task waited. So a request counts from the latest time at which it can have
    // arrived: an earlier one would free budget here that the upstream still counts.
    this.budget.spend(sent, turn ? turn.until + REPORT_MS : at);
    if (turn && sent > 0 && outcome !== 'other') this.budget.accept(turn.givenAt);
    if (outcome === 'throttled') this.budget.throttle(retryAfterMs, turn?.givenAt ?? null);
  }

  /** After the server's clock was set back, nothing may last longer for it. */
  #followClock(): void {
    const now = this.#now();
    if (now < this.#latest) {
      this.budget.clockWasSetBack();
      for (const turn of this.#turns.values()) {
        const lateMs = Math.max(0, turn.givenAt - (now - 1)); // before the turns that are given from now on
        turn.givenAt -= lateMs;
        turn.until -= lateMs;
      }
    }
    this.#latest = now;
  }

  /** The number of a turn that this queue gave; null for one that another queue gave, and if there was none. */
  #numberOf(turn: string | null): number | null {
    const { name, nextTurn } = this.#data;
    if (!turn?.startsWith(`${name}:`)) return null;
    const number = Number(turn.slice(name.length + 1));
    return Number.isInteger(number) && number < nextTurn ? number : null;
  }
}

/** Who waits: by priority, then by when they asked, then by workflow id. */
export class Waiters {
  /** The next one first. */
  readonly #order: Waiter[];
  #bytes = 0;

  constructor(carried: CarriedWaiter[]) {
    this.#order = carried.map(([workflowId, priority, askedAt, requests]) => {
      return { workflowId, priority, askedAt, requests };
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

  /** The first ones, in order. */
  head(count: number): Waiter[] {
    return this.#order.slice(0, count);
  }

  /** Adds one; one that waits already keeps the time that it asked. Returns those that must leave for want of room. */
  join(asked: Waiter): Waiter[] {
    const before = this.remove(asked.workflowId);
    const waiter = { ...asked, askedAt: Math.min(asked.askedAt, before?.askedAt ?? Infinity) };
    // From the end: who asks last mostly goes last.
    this.#order.splice(this.#order.findLastIndex((other) => isBefore(other, waiter)) + 1, 0, waiter);
    this.#bytes += bytesOf(waiter);
    const left: Waiter[] = [];
    while (this.#bytes > MAX_BYTES) left.push(this.remove(this.#order.at(-1)!.workflowId)!);
    return left;
  }

  remove(workflowId: string): Waiter | undefined {
    const index = this.#indexOf(workflowId);
    if (index < 0) return undefined;
    const [waiter] = this.#order.splice(index, 1);
    this.#bytes -= bytesOf(waiter!);
    return waiter;
  }

  /** Removes one that has ended, unless a new run of its id has asked since. */
  removeUnlessNew(waiter: Waiter): void {
    if (this.#order.includes(waiter)) this.remove(waiter.workflowId);
  }

  /** From 1, and the number of requests that are wanted up to it, its own included. Null if it does not wait. */
  placeOf(workflowId: string): { position: number; requests: number } | null {
    const position = this.#indexOf(workflowId) + 1;
    if (position === 0) return null;
    return { position, requests: this.head(position).reduce((sum, { requests }) => sum + requests, 0) };
  }

  carry(): CarriedWaiter[] {
    return this.#order.map(({ workflowId, priority, askedAt, requests }) => [workflowId, priority, askedAt, requests]);
  }

  #indexOf(workflowId: string): number {
    return this.#order.findIndex((waiter) => waiter.workflowId === workflowId);
  }
}

function isBefore(a: Waiter, b: Waiter): boolean {
  if (a.priority !== b.priority) return a.priority < b.priority;
  return a.askedAt === b.askedAt ? a.workflowId < b.workflowId : a.askedAt < b.askedAt;
}

function bytesOf({ workflowId }: Waiter): number {
  return jsonBytes(workflowId) + BYTES_BESIDES_ID;
}

/**
 * The state of a queue of requests: who waits, which turns are in flight, and what is known of the budget. Decides
 * whose turn is next, and what a report means. Pure; the clock is an argument. Times in milliseconds.
 */
import type {
  BudgetFacts,
  JoinRequest,
  LeaveRequest,
  Priority,
  QueueName,
  RequestReport,
  RequestTurn,
} from '../../contract.js';
import { jsonBytes } from '../../contract/input-checks.js';
import { Budget, type Allowance, type BudgetData, type GivenAllowance } from './budget.js';

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

/** What continue-as-new hands on. */
export interface QueueData {
  /** Begins the name of every turn of this queue. */
  name: string;
  /** The number of the next turn. */
  nextTurn: number;
  waiters: CarriedWaiter[];
  turns: [number: number, turn: TurnInFlight][];
  budget: BudgetData | null;
  /** Somebody has sent something: a queue that is started without a message waits for one. */
  wasUsed: boolean;
}

/** A turn that was given and not yet reported. */
interface TurnInFlight extends GivenAllowance {
  until: number;
  /** Requests of the same workflow that were answered 429 before. */
  refusals?: number;
}

/** A turn for a workflow, to be sent. */
export interface GivenTurn {
  workflowId: string;
  turn: RequestTurn;
}

/** A turn is good for so long, and for so much longer with each further request: as long as one may take. */
const TURN_MS = 60_000;
const FURTHER_REQUEST_MS = 20_000;
/** A report may be on its way for so long after the end of its turn. */
const REPORT_MS = 30_000;
/** Bounds what continue-as-new hands on. */
const MAX_TURNS_IN_FLIGHT = 2_000;
/** A queue that nobody has sent anything ends after this time. */
const UNUSED_MS = 60_000;
/** One turn of a queue is for so many requests at most: an odd message must not hold a project up. */
const MAX_REQUESTS: Record<QueueName['operation'], number> = { create: 1, message: 1, visitors: 120 };

export class QueueRun {
  readonly waiters: Waiters;
  readonly budget: Budget;
  readonly #turns: Map<number, TurnInFlight>;
  readonly #name: string;
  readonly #openedAt: number;
  readonly #now: () => number;
  readonly #maxRequests: number;
  #nextTurn: number;
  #wasUsed: boolean;
  #latest: number;

  constructor(
    operation: QueueName['operation'],
    { name, nextTurn, waiters, turns, budget, wasUsed }: QueueData,
    now: () => number,
  ) {
    this.#maxRequests = MAX_REQUESTS[operation];
    this.waiters = new Waiters(waiters);
    this.budget = new Budget(budget, now);
    this.#turns = new Map(turns);
    for (const turn of this.#turns.values()) this.budget.begin(turn);
    this.#name = name;
    this.#nextTurn = nextTurn;
    this.#wasUsed = wasUsed;
    this.#openedAt = this.#latest = now();
    this.#now = now;
  }

  get turnsInFlight(): number {
    return this.#turns.size;
  }

  /** A workflow asks for its turn. Returns those that must leave for want of room. */
  join({ workflowId, priority, askedAt, requests = 1, report, ...facts }: JoinRequest): Waiter[] {
    this.#hear(facts);
    const refusals = report ? this.#refusalsAfter(report) : 0;
    if (report) this.#apply(report);
    const wanted = Math.min(requests, this.#maxRequests);
    const since = Math.min(askedAt, this.#now());
    return this.waiters.join({ workflowId, priority, askedAt: since, requests: wanted, refusals });
  }

  /** A workflow ends: its place is free, and so is its turn. */
  leave({ workflowId, turn }: LeaveRequest): void {
    this.waiters.remove(workflowId);
    if (turn !== undefined) this.#apply({ turn, outcome: 'unsent', at: this.#now() });
  }

  /** A worker tells how a request ended. */
  report(report: RequestReport & BudgetFacts): void {
    this.#hear(report);
    this.#apply(report);
  }

  /** The next turn, where one may be given now; the workflow waits no more. */
  nextTurn(): GivenTurn | null {
    const { first } = this.waiters;
    if (!first || this.#turns.size >= MAX_TURNS_IN_FLIGHT) return null;
    const allowance = this.budget.allowance(first.requests);
    if (!allowance) return null;
    // Each try that is refused costs its workflow another wait: they take turns at it.
    return this.#give(this.budget.isTry(allowance) ? (this.waiters.leastRefused ?? first) : first, allowance);
  }

  /** A turn did not reach its workflow, which has ended: the next one gets it. */
  giveBack({ turn: { turn } }: GivenTurn): void {
    this.#apply({ turn, outcome: 'unsent', at: this.#now() });
  }

  /** Turns that nobody reported in time count as used. Returns how many requests that are. */
  expireTurns(): number {
    this.#followClock();
    let requests = 0;
    for (const [number, turn] of this.#turns) {
      if (turn.until + REPORT_MS > this.#now()) continue;
      this.#end(number, turn);
      this.budget.spent(turn.requests, turn.until);
      requests += turn.requests;
    }
    return requests;
  }

  /** When the next turn may be given, as far as is known now; null where that takes a report. */
  get nextTurnAt(): number | null {
    if (this.#turns.size >= MAX_TURNS_IN_FLIGHT) return null;
    return this.budget.nextTurnAt(this.waiters.first?.requests ?? 1);
  }

  /** The next time at which anything can change by itself. */
  get wakeAt(): number {
    if (this.waiters.count === 0 && this.#turns.size === 0) return this.#endsAt;
    const nextTurnAt = this.waiters.count === 0 ? null : this.nextTurnAt;
    return Math.min(nextTurnAt ?? Infinity, ...[...this.#turns.values()].map(({ until }) => until + REPORT_MS));
  }

  /** Nobody waits, nothing is in flight, and nothing need be remembered. */
  get isOver(): boolean {
    return this.waiters.count === 0 && this.#turns.size === 0 && this.#endsAt <= this.#now();
  }

  carry(): QueueData {
    return {
      name: this.#name,
      nextTurn: this.#nextTurn,
      waiters: this.waiters.carry(),
      turns: [...this.#turns],
      budget: this.budget.carry(),
      wasUsed: this.#wasUsed,
    };
  }

  #give({ workflowId, requests, refusals }: Waiter, allowed: Allowance): GivenTurn {
    this.waiters.remove(workflowId);
    const allowance = { ...allowed, requests: Math.min(requests, allowed.requests) };
    const givenAt = this.#now();
    const until = givenAt + TURN_MS + (allowance.requests - 1) * FURTHER_REQUEST_MS;
    this.#turns.set(this.#nextTurn, { ...allowance, givenAt, until, ...(refusals > 0 && { refusals }) });
    this.budget.begin(allowance);
    const turn = `${this.#name}:${this.#nextTurn++}`;
    return { workflowId, turn: { turn, until, requests: allowance.requests } };
  }

  get #endsAt(): number {
    return this.#wasUsed ? this.budget.forgettableAt : this.#openedAt + UNUSED_MS;
  }

  #hear(facts: BudgetFacts): void {
    this.#wasUsed = true;
    this.budget.hear(facts);
  }

  /** What a report says about a turn in flight. A turn that has ended is corrected no more, but a 429 is one. */
  #apply({ turn: name, outcome, at, requests = 1, retryAfterMs }: RequestReport): void {
    const number = this.#numberOf(name);
    const turn = number === null ? null : (this.#turns.get(number) ?? null);
    const isLate = number !== null && turn === null;
    if (number !== null && turn) this.#end(number, turn);
    const accepted = isLate ? 0 : outcome === 'throttled' ? requests - 1 : outcome === 'accepted' ? requests : 0;
    // A worker does not know how long its task waited, and the upstream may still count what is taken for free here.
    const spentAt = turn?.until ?? at;
    if (accepted > 0) this.budget.accepted(accepted, spentAt, turn);
    if (outcome === 'throttled') this.budget.throttled(retryAfterMs, turn);
    if (outcome === 'other' && !isLate) this.budget.spent(requests, spentAt);
  }

  /** How many requests of a workflow were answered 429, with the one of this report. */
  #refusalsAfter({ turn, outcome }: RequestReport): number {
    const number = this.#numberOf(turn);
    const before = number === null ? undefined : this.#turns.get(number);
    return (before?.refusals ?? 0) + (outcome === 'throttled' ? 1 : 0);
  }

  /** Where the server's clock was set back, nothing may last longer for it. */
  #followClock(): void {
    const now = this.#now();
    if (now < this.#latest) {
      this.budget.clockWasSetBack();
      for (const [number, { givenAt, until, ...turn }] of this.#turns) {
        const lateMs = Math.max(0, givenAt - (now - 1)); // before the turns that are given from now on
        this.#turns.set(number, { ...turn, givenAt: givenAt - lateMs, until: until - lateMs });
      }
    }
    this.#latest = now;
  }

  #end(number: number, turn: TurnInFlight): void {
    this.#turns.delete(number);
    this.budget.end(turn);
  }

  /** The number of a turn that this queue gave; null for one of before its time, and where there was none. */
  #numberOf(turn: string | null): number | null {
    if (!turn?.startsWith(`${this.#name}:`)) return null;
    const number = Number(turn.slice(this.#name.length + 1));
    return Number.isInteger(number) && number < this.#nextTurn ? number : null;
  }
}

/** Who waits: by priority, then by when they asked, then by workflow id. */
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
    // From the end: who asks last mostly goes last.
    this.#order.splice(this.#order.findLastIndex((other) => isBefore(other, waiter)) + 1, 0, waiter);
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
}

function isBefore(a: Waiter, b: Waiter): boolean {
  if (a.priority !== b.priority) return a.priority < b.priority;
  return a.askedAt === b.askedAt ? a.workflowId < b.workflowId : a.askedAt < b.askedAt;
}

function bytesOf({ workflowId }: Waiter): number {
  return jsonBytes(workflowId) + BYTES_BESIDES_ID;
}

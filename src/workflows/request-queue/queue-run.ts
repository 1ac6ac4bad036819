/**
 * The state of a queue of requests: who waits, which turns are in flight, and what is known of the budget. Decides
 * whose turn is next, and what a report means. Pure; the clock is an argument. Times in milliseconds.
 */
import type { BudgetFacts, JoinRequest, LeaveRequest, RequestReport, RequestTurn } from '../../contract.js';
import { RequestBudget } from '../../agent-job/request-budget.js';
import type { Allowance, BudgetData } from '../../agent-job/turn-times.js';
import { Waiters, type CarriedWaiter, type Waiter } from './waiters.js';

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
interface TurnInFlight extends Allowance {
  givenAt: number;
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

export class QueueRun {
  readonly waiters: Waiters;
  readonly budget: RequestBudget;
  readonly #turns: Map<number, TurnInFlight>;
  readonly #name: string;
  readonly #openedAt: number;
  readonly #now: () => number;
  #nextTurn: number;
  #wasUsed: boolean;

  constructor({ name, nextTurn, waiters, turns, budget, wasUsed }: QueueData, now: () => number) {
    this.waiters = new Waiters(waiters);
    this.budget = new RequestBudget(budget, now);
    this.#turns = new Map(turns);
    for (const turn of this.#turns.values()) this.budget.begin(turn);
    this.#name = name;
    this.#nextTurn = nextTurn;
    this.#wasUsed = wasUsed;
    this.#openedAt = now();
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
    return this.waiters.join({ workflowId, priority, askedAt: Math.min(askedAt, this.#now()), requests, refusals });
  }

  /** A workflow ends: its place is free, and so is its turn. */
  leave({ workflowId, turn }: LeaveRequest): void {
    this.waiters.remove(workflowId);
    if (turn !== undefined) this.#apply({ turn, outcome: 'unsent', at: this.#now() });
  }

  /** Whether this queue gave a turn, and waits for no report of it any more. */
  hasEnded(turn: string | null): boolean {
    const number = this.#numberOf(turn);
    return number !== null && !this.#turns.has(number);
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
    let requests = 0;
    for (const [number, turn] of this.#turns) {
      if (turn.until + REPORT_MS > this.#now()) continue;
      this.#end(number, turn);
      this.budget.spent({ at: turn.until, givenAt: turn.givenAt }, turn.requests);
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

  /** What a report says about a turn in flight. A turn that has ended is corrected no more. */
  #apply(report: RequestReport): void {
    const number = this.#numberOf(report.turn);
    const turn = number === null ? undefined : this.#turns.get(number);
    if (number !== null && !turn) return;
    if (number !== null && turn) this.#end(number, turn);
    const { outcome, at, requests = 1, retryAfterMs } = report;
    const times = { at, givenAt: turn?.givenAt ?? null, ...(turn && { until: turn.until }) };
    const isBeyond = turn?.isBeyond === true;
    if (outcome === 'accepted') this.budget.accepted(times, requests, isBeyond);
    else if (outcome === 'other') this.budget.spent(times, requests);
    else if (outcome === 'unsent' && turn) this.budget.unsent(turn);
    else if (outcome === 'throttled') {
      if (requests > 1) this.budget.accepted(times, requests - 1, isBeyond);
      this.budget.throttled(times, retryAfterMs);
    }
  }

  /** How many requests of a workflow were answered 429, with the one of this report. */
  #refusalsAfter({ turn, outcome }: RequestReport): number {
    const number = this.#numberOf(turn);
    const before = number === null ? undefined : this.#turns.get(number);
    return (before?.refusals ?? 0) + (outcome === 'throttled' ? 1 : 0);
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

/** Requests in front of an upstream that takes only so many, in simulated time. */
import { Budget, type Allowance, type GivenAllowance } from '../../src/workflows/request-queue/budget.js';

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
/** Some Tuesday, 10 minutes before a full hour: a fixed window ends soon. */
const START = Date.UTC(2026, 10, 24, 9, 50);
/** As a worker sends without a queue. */
const WITHOUT_QUEUE = 8;

/** So many in any window, or in each one of the clock. */
export interface Limit {
  requests: number;
  windowMs: number;
  isFixed?: boolean;
}

export interface Simulation {
  /** All of them hold. */
  limits: readonly Limit[];
  saysRetryAfter?: boolean;
  /** When requests are asked for, in milliseconds after the start. */
  asked: readonly number[];
  /** A budget that is set: all wait for turns from the start. Without one they are sent until the first 429. */
  perHour?: number;
  /** How long a request takes. */
  roundTripMs?: number;
  /** Requests of somebody else, in milliseconds after the start. */
  others?: readonly number[];
}

/** Times in milliseconds after the start. */
export interface Outcome {
  accepted: number[];
  refused: number[];
  budget: Budget;
}

/** Runs until all requests are accepted. */
export function simulate(simulation: Simulation): Outcome {
  const run = new SimulatedQueue(simulation);
  while (run.isBusy) run.step();
  return run.outcome;
}

interface Sent {
  answersAt: number;
  turn: GivenAllowance | null;
  isAccepted: boolean;
  retryAfterMs: number | undefined;
}

class SimulatedQueue {
  readonly outcome: Outcome;
  readonly #upstream: SimulatedLimits;
  readonly #budget: Budget;
  readonly #asked: number[];
  readonly #others: number[];
  readonly #roundTripMs: number;
  #now = START;
  #waiting = 0;
  #isEngaged: boolean;
  #inFlight: Sent[] = [];

  constructor({ limits, saysRetryAfter = false, asked, perHour, others = [], roundTripMs = SECOND }: Simulation) {
    this.#upstream = new SimulatedLimits(limits, saysRetryAfter);
    this.#budget = new Budget(null, () => this.#now);
    this.#asked = asked.map((at) => START + at).toSorted((a, b) => a - b);
    this.#others = others.map((at) => START + at).toSorted((a, b) => a - b);
    this.#roundTripMs = roundTripMs;
    this.#isEngaged = perHour !== undefined;
    if (perHour !== undefined) this.#budget.hear({ perHour });
    this.outcome = { accepted: [], refused: [], budget: this.#budget };
  }

  get isBusy(): boolean {
    return this.#waiting + this.#asked.length + this.#inFlight.length > 0;
  }

  step(): void {
    for (; (this.#asked[0] ?? Infinity) <= this.#now; this.#waiting++) this.#asked.shift();
    for (const sent of this.#inFlight.filter(({ answersAt }) => answersAt <= this.#now)) this.#hear(sent);
    this.#inFlight = this.#inFlight.filter(({ answersAt }) => answersAt > this.#now);
    if (this.#isEngaged) this.#giveTurns();
    else while (this.#waiting > 0 && this.#inFlight.length < WITHOUT_QUEUE) this.#send(null);
    this.#now = Math.max(this.#now + 1, this.#nextAt());
  }

  #giveTurns(): void {
    for (let allowance; this.#waiting > 0 && (allowance = this.#budget.allowance(1));) {
      this.#budget.begin(allowance);
      this.#send(allowance);
    }
  }

  #nextAt(): number {
    const turnAt = this.#waiting > 0 && this.#isEngaged ? (this.#budget.nextTurnAt(1) ?? Infinity) : Infinity;
    return Math.min(turnAt, this.#asked[0] ?? Infinity, ...this.#inFlight.map(({ answersAt }) => answersAt));
  }

  #send(allowance: Allowance | null): void {
    while ((this.#others[0] ?? Infinity) <= this.#now) this.#upstream.take(this.#others.shift()!);
    this.#waiting -= 1;
    this.#inFlight.push({
      answersAt: this.#now + this.#roundTripMs,
      turn: allowance && { ...allowance, givenAt: this.#now },
      ...this.#upstream.take(this.#now),
    });
  }

  #hear({ turn, isAccepted, retryAfterMs }: Sent): void {
    if (turn) this.#budget.end(turn);
    (isAccepted ? this.outcome.accepted : this.outcome.refused).push(this.#now - START);
    // Of what was accepted without a turn the queue hears nothing.
    if (isAccepted && turn) this.#budget.accepted(1, this.#now, turn);
    if (isAccepted) return;
    this.#waiting += 1;
    this.#isEngaged = true;
    this.#budget.throttled(retryAfterMs, turn);
  }
}

class SimulatedLimits {
  readonly #limits: readonly Limit[];
  readonly #saysRetryAfter: boolean;
  readonly #taken: number[] = [];

  constructor(limits: readonly Limit[], saysRetryAfter: boolean) {
    this.#limits = limits;
    this.#saysRetryAfter = saysRetryAfter;
  }

  take(now: number): Pick<Sent, 'isAccepted' | 'retryAfterMs'> {
    const waits = this.#limits.map((limit) => this.#waitMs(limit, now));
    const waitMs = Math.max(0, ...waits);
    if (waitMs === 0) this.#taken.push(now);
    const told = Math.ceil(waitMs / SECOND) * SECOND;
    return { isAccepted: waitMs === 0, retryAfterMs: this.#saysRetryAfter && waitMs > 0 ? told : undefined };
  }

  #waitMs({ requests, windowMs, isFixed = false }: Limit, now: number): number {
    const since = isFixed ? now - (now % windowMs) : now - windowMs + 1;
    const taken = this.#taken.filter((at) => at >= since);
    if (taken.length < requests) return 0;
    return (isFixed ? since : taken[0]!) + windowMs - now;
  }
}

/** So many at once, from a time on. */
export function burst(count: number, at = 0): number[] {
  return Array.from({ length: count }, () => at);
}

/** So many, evenly spread. */
export function evenly(count: number, everyMs: number): number[] {
  return Array.from({ length: count }, (_, i) => i * everyMs);
}

/** The most events of any hour. */
export function mostInAnHour(times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + HOUR).length));
}

/** Requests in front of an upstream with an hourly limit, in simulated time. */
import { RequestBudget } from '../../src/agent-job/request-budget.js';
import type { Allowance } from '../../src/agent-job/turn-times.js';
import { RateLimiter, type RateLimits } from '../../src/sandbox/access.js';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
/** Some Tuesday, 10 minutes before a full hour: a fixed window ends soon. */
const START = Date.UTC(2026, 10, 24, 9, 50);

export interface Simulation {
  limits: Pick<RateLimits, 'create' | 'window' | 'retryAfter'>;
  /** When requests are asked for, in milliseconds after the start. */
  asked: number[];
  /** A budget that is set: all wait for turns from the start. Without one they are sent until the first 429. */
  perHour?: number;
  /** How long a request takes. */
  roundTripMs?: number;
  /** Requests of somebody else, in milliseconds after the start. */
  others?: number[];
}

/** Times in milliseconds after the start. */
export interface Outcome {
  accepted: number[];
  throttled: number[];
  /** How often the queue looked whether a turn may be given. */
  looks: number;
  budget: RequestBudget;
}

interface Sent {
  givenAt: number | null;
  answersAt: number;
  allowance: Allowance | null;
  isAccepted: boolean;
  retryAfterMs: number | undefined;
}

/** Runs until all requests are accepted. */
export function simulate(simulation: Simulation): Outcome {
  const run = new SimulatedQueue(simulation);
  while (run.isBusy) run.step();
  return run.outcome;
}

class SimulatedQueue {
  readonly outcome: Outcome;
  readonly #limiter: RateLimiter;
  readonly #budget: RequestBudget;
  readonly #asked: number[];
  readonly #others: number[];
  readonly #roundTripMs: number;
  #now = START;
  #waiting = 0;
  #isEngaged: boolean;
  #inFlight: Sent[] = [];

  constructor({ limits, asked, perHour, others = [], roundTripMs = 1_000 }: Simulation) {
    this.#limiter = new RateLimiter(limits);
    this.#budget = new RequestBudget(null, () => this.#now);
    this.#asked = asked.map((at) => START + at).toSorted((a, b) => a - b);
    this.#others = others.map((at) => START + at).toSorted((a, b) => a - b);
    this.#roundTripMs = roundTripMs;
    this.#isEngaged = perHour !== undefined;
    if (perHour !== undefined) this.#budget.hear({ perHour });
    this.outcome = { accepted: [], throttled: [], looks: 0, budget: this.#budget };
  }

  get isBusy(): boolean {
    return this.#waiting + this.#asked.length + this.#inFlight.length > 0;
  }

  step(): void {
    for (; (this.#asked[0] ?? Infinity) <= this.#now; this.#waiting++) this.#asked.shift();
    for (const sent of this.#inFlight.filter(({ answersAt }) => answersAt <= this.#now)) this.#hear(sent);
    this.#inFlight = this.#inFlight.filter(({ answersAt }) => answersAt > this.#now);
    if (this.#isEngaged) this.#giveTurns();
    else for (; this.#waiting > 0; this.#waiting--) this.#send(null);
    this.#now = Math.max(this.#now + 1, this.#nextAt());
  }

  #giveTurns(): void {
    this.outcome.looks += 1;
    for (let allowance; this.#waiting > 0 && (allowance = this.#budget.allowance(1)); this.#waiting--) {
      this.#budget.begin(allowance);
      this.#send(allowance);
    }
  }

  #nextAt(): number {
    const turnAt = this.#waiting > 0 ? (this.#budget.nextTurnAt(1) ?? Infinity) : Infinity;
    return Math.min(turnAt, this.#asked[0] ?? Infinity, ...this.#inFlight.map(({ answersAt }) => answersAt));
  }

  #send(allowance: Allowance | null): void {
    while ((this.#others[0] ?? Infinity) <= this.#now) this.#limiter.refuse('create', 'p', this.#others.shift()!);
    const refused = this.#limiter.refuse('create', 'p', this.#now);
    const told = refused?.['retry-after'];
    this.#inFlight.push({
      givenAt: allowance ? this.#now : null,
      answersAt: this.#now + this.#roundTripMs,
      allowance,
      isAccepted: !refused,
      retryAfterMs: told === undefined ? undefined : 1_000 * Number(told),
    });
  }

  #hear({ givenAt, answersAt, allowance, isAccepted, retryAfterMs }: Sent): void {
    const times = { at: answersAt, givenAt };
    if (allowance) this.#budget.end(allowance);
    (isAccepted ? this.outcome.accepted : this.outcome.throttled).push(this.#now - START);
    if (isAccepted) return this.#budget.accepted(times, 1, allowance?.isBeyond);
    this.#waiting += 1;
    this.#isEngaged = true;
    this.#budget.throttled(times, retryAfterMs);
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
export function mostInAnHour(times: number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + HOUR).length));
}

/**
 * Decides when the next request may be sent to an upstream that takes only so many: by the set budget, and by answers
 * 429. After a 429 with `Retry-After` the queue opens when that says. After another it is closed for 30 seconds, twice
 * as long after each further refusal, and then sends one request alone. Pure. Times in milliseconds.
 */
import { doubled, throttledWaitMs } from '../agent-job/waits.js';
import { UNLIMITED, type WritesPerHour } from '../contract/request-queue.js';
import { countOf, HOUR_MS, leavesAt, setBack, withEvents } from './rolling-hour.js';

/** In flight at once: so many may be refused together. A worker without a queue sends as many. */
const MAX_IN_FLIGHT = 8;
const FIRST_CLOSED_MS = 30_000;
const MAX_CLOSED_MS = 20 * 60_000;
/** Turns that are answered 429 without `Retry-After`, in any hour. */
const MAX_REFUSED = 16;
/** A budget that no worker has named for so long is taken back by workers that know of none. */
const NAMED_MS = 15 * 60_000;

type RollingHour = ReturnType<typeof withEvents>;
const NOTHING_KNOWN = {
  /** The budget that is set, and when a worker last named it. */
  set: null as WritesPerHour | null,
  namedAt: 0,
  /** Requests that were sent, answers 429, and those without `Retry-After` to a request with a turn. */
  spent: [] as RollingHour,
  throttled: [] as RollingHour,
  refused: [] as RollingHour,
  /** Refusals since a request was accepted. Requests that are in flight together make one. */
  refusals: 0,
  refusedAt: 0,
  /** How many may be in flight: one after a refusal, then twice as many with each request that is accepted. */
  window: MAX_IN_FLIGHT,
  /** Nothing is sent before; `isNamed` if the upstream named that time. */
  opensAt: 0,
  isNamed: false,
};

/** What continue-as-new hands on. */
export type BudgetData = typeof NOTHING_KNOWN;

/** The budget of one queue. */
export class Budget {
  readonly data: BudgetData;
  readonly #now: () => number;

  constructor(data: BudgetData | null, now: () => number) {
    this.data = { ...NOTHING_KNOWN, ...data };
    this.#now = now;
  }

  /** Requests an hour; null if no number is set. */
  get perHour(): number | null {
    return this.data.set === UNLIMITED ? null : this.data.set;
  }

  /** Nothing is sent before; null if nothing holds the queue back. */
  get notBefore(): number | null {
    const opensAt = Math.max(this.data.opensAt, leavesAt(this.data.refused, MAX_REFUSED - 1, this.#now()));
    return opensAt > this.#now() ? opensAt : null;
  }

  /** Until then an answer 429, or what counts towards a number, must be remembered. */
  get remembersUntil(): number {
    const { throttled, spent } = this.data;
    const now = this.#now();
    return Math.max(leavesAt(throttled, 0, now), this.perHour === null ? 0 : leavesAt(spent, 0, now));
  }

  /** How many requests the next turn holds: all that are wanted, or all that the budget has. */
  requestsOf(wanted: number): number {
    return Math.min(wanted, this.perHour ?? Infinity);
  }

  /** Whether so many requests beside those of the last hour take more than half of the number that is set. */
  isHalfUsed(requests: number): boolean {
    return this.perHour !== null && countOf(this.data.spent, this.#now()) + requests > this.perHour / 2;
  }

  /** The earliest time of a turn beside those in flight; null if that takes an answer first. */
  nextTurnAt(wanted: number, turns: number, requests: number): number | null {
    // Half of the refusals that the hour has left, so that some are left for later.
    const maxTurns = Math.ceil((MAX_REFUSED - countOf(this.data.refused, this.#now())) / 2);
    const needed = requests + this.requestsOf(wanted);
    if (turns >= Math.min(this.data.window, Math.max(maxTurns, 1)) || needed > this.requestsOf(Infinity)) return null;
    return this.freeAt(needed);
  }

  /** Takes what a worker says of the budget that is set; absent says nothing. */
  take(perHour: WritesPerHour | null | undefined): void {
    const { data } = this;
    const now = this.#now();
    if (perHour === undefined || (perHour === null && now - data.namedAt < NAMED_MS)) return;
    data.set = perHour;
    if (perHour !== null) data.namedAt = now;
  }

  /** Requests were sent, and may count upstream: until an hour after that time. */
  spend(requests: number, at: number): void {
    this.data.spent = withEvents(this.data.spent, requests, at, this.#now());
  }

  /** A request was accepted whose turn was given at a time. */
  accept(givenAt: number): void {
    // What was sent before a refusal and is reported after it opens nothing.
    if (givenAt <= this.data.refusedAt) return;
    Object.assign(this.data, { refusals: 0, window: Math.min(2 * this.data.window, MAX_IN_FLIGHT) });
  }

  /** A request was answered 429, which counts from now on: clocks of workers may be wrong. It may have had no turn. */
  refuse(retryAfterMs: number | null, givenAt: number | null): void {
    const { data } = this;
    const now = this.#now();
    data.throttled = withEvents(data.throttled, 1, now, now);
    // Without a turn it belongs to a refusal of the last moments.
    const isTogether = givenAt === null ? now < data.refusedAt + FIRST_CLOSED_MS : givenAt <= data.refusedAt;
    if (!isTogether) Object.assign(data, { refusals: data.refusals + 1, refusedAt: now, window: 1 });
    if (retryAfterMs !== null) {
      const opensAt = now + throttledWaitMs(Math.max(1, data.refusals), retryAfterMs);
      Object.assign(data, { opensAt: Math.max(opensAt, data.isNamed ? data.opensAt : 0), isNamed: true });
      return;
    }
    if (givenAt !== null) data.refused = withEvents(data.refused, 1, now, now);
    if (isTogether || (data.isNamed && data.opensAt > now)) return;
    const closedMs = Math.min(doubled(FIRST_CLOSED_MS, data.refusals), MAX_CLOSED_MS);
    Object.assign(data, { opensAt: now + closedMs, isNamed: false });
  }

  /** The server's clock was set back: nothing lies further ahead than it would have from now on. */
  clockWasSetBack(): void {
    const { data } = this;
    const now = this.#now();
    const [spent, throttled, refused] = [data.spent, data.throttled, data.refused].map((hour) => setBack(hour, now));
    const refusedAt = Math.min(data.refusedAt, now - 1); // before the turns that are given from now on
    const opensAt = Math.min(data.opensAt, now + HOUR_MS);
    Object.assign(data, { spent, throttled, refused, refusedAt, opensAt, namedAt: Math.min(data.namedAt, now) });
  }

  /** When so many of the budget are free, and the queue is open. */
  freeAt(needed: number): number {
    const freeAt = this.perHour === null ? 0 : leavesAt(this.data.spent, this.perHour - needed, this.#now());
    return Math.max(freeAt, this.notBefore ?? this.#now());
  }
}

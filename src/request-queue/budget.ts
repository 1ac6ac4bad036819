/**
 * Decides when the next request may be sent to an upstream that limits them: by the budgets of an hour and of a day,
 * and by answers 429. After a 429 with `Retry-After` the queue opens when that says. After another it is closed for 30
 * seconds, twice that time after each further 429, and then sends one request alone. Pure. Times in milliseconds.
 */
import { doubled, throttledWaitMs } from '../agent-job/waits.js';
import type { BudgetFacts, WriteLimit } from '../contract/request-queue.js';
import { DAY, HOUR, setBack, type Counted } from './rolling-window.js';

/** In flight at once, and so at most answered 429 together. A worker without a queue sends the same number. */
const MAX_IN_FLIGHT = 8;
const FIRST_CLOSED_MS = 30_000;
const MAX_CLOSED_MS = 20 * 60_000;
/** Turns that are answered 429 without `Retry-After`, in any hour. */
const MAX_THROTTLED_TURNS = 16;
/** A budget that no worker has named for this time is taken back by workers that know of none. */
const NAMED_MS = 15 * 60_000;

type LimitName = keyof BudgetFacts;
/** The window of each limit, the longest last. */
const WINDOWS = { perHour: HOUR, perDay: DAY } as const satisfies Record<LimitName, unknown>;
const LIMIT_NAMES = Object.keys(WINDOWS) as LimitName[];

/** What is set, when a worker last named it, and the requests that were sent within the window. */
const unset = () => ({ set: null as WriteLimit | null, namedAt: 0, spent: [] as Counted });

const nothingKnown = () => ({
  limits: { perHour: unset(), perDay: unset() },
  /** Answers 429, and those without `Retry-After` to a request with a turn, within the hour. */
  throttled: [] as Counted,
  throttledTurns: [] as Counted,
  /** Answers 429 since a request was accepted. Those to requests that were in flight together count as one. */
  throttles: 0,
  throttledAt: 0,
  /** Requests that may be in flight: one after a 429; each request that is accepted doubles the number. */
  window: MAX_IN_FLIGHT,
  /** Nothing is sent before; `isNamed` if the upstream named that time. */
  opensAt: 0,
  isNamed: false,
});

/** What continue-as-new hands on. */
export type BudgetData = ReturnType<typeof nothingKnown>;

/** The budget of one queue. */
export class Budget {
  readonly data: BudgetData;
  readonly #now: () => number;

  constructor(data: BudgetData | null, now: () => number) {
    this.data = { ...nothingKnown(), ...data };
    this.#now = now;
  }

  /** The number of a limit; null if none is set. */
  numberOf(name: LimitName): number | null {
    const { set } = this.data.limits[name];
    return typeof set === 'number' ? set : null;
  }

  /** The requests of a limit's window. */
  spentOf(name: LimitName): number {
    return WINDOWS[name].countOf(this.data.limits[name].spent, this.#now());
  }

  /** The limits with a number, the longest last. */
  get #limits() {
    return LIMIT_NAMES.flatMap((name) => {
      const max = this.numberOf(name);
      return max === null ? [] : [{ max, window: WINDOWS[name], spent: this.data.limits[name].spent }];
    });
  }

  /** Nothing is sent before; null if nothing holds the queue back. */
  get notBefore(): number | null {
    const opensAt = Math.max(
      this.data.opensAt,
      HOUR.leavesAt(this.data.throttledTurns, MAX_THROTTLED_TURNS - 1, this.#now()),
    );
    return opensAt > this.#now() ? opensAt : null;
  }

  /** Until then an answer 429, or what counts towards a number, must be remembered. */
  get remembersUntil(): number {
    const now = this.#now();
    const emptyAt = this.#limits.map(({ window, spent }) => window.leavesAt(spent, 0, now));
    return Math.max(HOUR.leavesAt(this.data.throttled, 0, now), ...emptyAt);
  }

  /** The number of requests that the next turn holds: all that are wanted, or all that the smallest limit has. */
  requestsOf(wanted: number): number {
    return Math.min(wanted, ...this.#limits.map(({ max }) => max));
  }

  /** Whether these requests beside those that were sent take more than half of a limit. */
  isHalfUsed(requests: number): boolean {
    return this.usedUp(requests, 2) !== undefined;
  }

  /** The earliest time of a turn beside those in flight; null if that takes an answer first. */
  nextTurnAt(wanted: number, turns: number, requests: number): number | null {
    // Half of the answers 429 that the hour has left, so that some are left for later.
    const maxTurns = Math.ceil((MAX_THROTTLED_TURNS - HOUR.countOf(this.data.throttledTurns, this.#now())) / 2);
    const needed = requests + this.requestsOf(wanted);
    if (turns >= Math.min(this.data.window, Math.max(maxTurns, 1)) || needed > this.requestsOf(Infinity)) return null;
    return this.freeAt(needed);
  }

  /** Takes what a worker says of the limits that are set; absent says nothing. */
  take(facts: BudgetFacts): void {
    const now = this.#now();
    for (const name of LIMIT_NAMES) {
      const [set, limit] = [facts[name], this.data.limits[name]];
      if (set === undefined || (set === null && now - limit.namedAt < NAMED_MS)) continue;
      limit.set = set;
      if (set !== null) limit.namedAt = now;
    }
  }

  /** Requests were sent, and may count upstream: for an hour and a day after that time. */
  spend(requests: number, at: number): void {
    for (const name of LIMIT_NAMES) {
      const limit = this.data.limits[name];
      limit.spent = WINDOWS[name].withEvents(limit.spent, requests, at, this.#now());
    }
  }

  /** A request was accepted whose turn was given at a time. */
  accept(givenAt: number): void {
    // What was sent before a 429 and is reported after it opens nothing.
    if (givenAt <= this.data.throttledAt) return;
    this.data.throttles = 0;
    this.data.window = Math.min(2 * this.data.window, MAX_IN_FLIGHT);
  }

  /** A request was answered 429, which counts from now on: clocks of workers may be wrong. It may have had no turn. */
  throttle(retryAfterMs: number | null, givenAt: number | null): void {
    const { data } = this;
    const now = this.#now();
    data.throttled = HOUR.withEvents(data.throttled, 1, now, now);
    // Without a turn it belongs to a 429 of the last moments.
    const isTogether = givenAt === null ? now < data.throttledAt + FIRST_CLOSED_MS : givenAt <= data.throttledAt;
    if (!isTogether) {
      data.throttles += 1;
      data.throttledAt = now;
      data.window = 1;
    }
    if (retryAfterMs !== null) {
      const opensAt = now + throttledWaitMs(Math.max(1, data.throttles), retryAfterMs);
      data.opensAt = Math.max(opensAt, data.isNamed ? data.opensAt : 0);
      data.isNamed = true;
      return;
    }
    if (givenAt !== null) data.throttledTurns = HOUR.withEvents(data.throttledTurns, 1, now, now);
    if (isTogether || (data.isNamed && data.opensAt > now)) return;
    data.opensAt = now + Math.min(doubled(FIRST_CLOSED_MS, data.throttles), MAX_CLOSED_MS);
    data.isNamed = false;
  }

  /** The server's clock was set back: nothing lies further ahead than it would have from now on. */
  clockWasSetBack(): void {
    const { data } = this;
    const now = this.#now();
    for (const limit of Object.values(data.limits)) {
      limit.spent = setBack(limit.spent, now);
      limit.namedAt = Math.min(limit.namedAt, now);
    }
    data.throttled = setBack(data.throttled, now);
    data.throttledTurns = setBack(data.throttledTurns, now);
    data.throttledAt = Math.min(data.throttledAt, now - 1); // before the turns that are given from now on
    data.opensAt = Math.min(data.opensAt, now + HOUR.spanMs);
  }

  /** When `needed` requests of each limit are free, and the queue is open. */
  freeAt(needed: number): number {
    const now = this.#now();
    const freeAt = this.#limits.map(({ max, window, spent }) => window.leavesAt(spent, max - needed, now));
    return Math.max(this.notBefore ?? now, ...freeAt);
  }

  /** When each of the next requests may be sent, if each is sent as soon as it may; empty if no limit is set. */
  sendTimes(requests: number): number[] {
    const now = this.#now();
    const opensAt = this.notBefore ?? now;
    const limits = this.#limits.map((limit) => ({
      ...limit,
      rooms: limit.window.roomsAt(limit.spent, limit.max, now),
    }));
    const times: number[] = [];
    for (let sent = 0; limits.length > 0 && sent < requests; sent++) {
      let at = opensAt;
      // A request takes the room of an earlier one: first of those that were sent, then of those of this line.
      for (const { max, window, rooms } of limits) {
        at = Math.max(at, sent < max ? (rooms.next().value ?? now) : times[sent - max]! + window.spanMs);
      }
      times.push(at);
    }
    return times;
  }

  /** The longest limit whose `part` (1: all, 2: half) is too small for these requests, too; undefined if none is. */
  usedUp(requests: number, part = 1): { name: string; max: number } | undefined {
    const now = this.#now();
    const used = this.#limits.findLast(({ max, window, spent }) => window.countOf(spent, now) + requests > max / part);
    return used && { name: used.window.name, max: used.max };
  }
}

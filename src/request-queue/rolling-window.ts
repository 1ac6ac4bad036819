/**
 * What happened within the last hour or day, counted: requests that were sent, answers 429. In steps, each with the
 * time of its latest event, so that its size is bounded and nothing leaves early. Pure. Times in milliseconds.
 */

// Lengths of their own: a product under test has a shorter hour, and nothing else of it is shorter.
const HOUR_MS = 3_600_000;
const HOUR_STEP_MS = 10_000;
const DAY_STEP_MS = 10 * 60_000;

/** `[time of the latest, count]` of each step, oldest first. */
export type Counted = readonly (readonly [at: number, count: number])[];

/** A window of time that ends now. */
class RollingWindow {
  readonly name: string;
  /** How far back it reaches. */
  readonly spanMs: number;
  readonly #stepMs: number;

  constructor(name: string, spanMs: number, stepMs: number) {
    this.name = name;
    this.spanMs = spanMs;
    this.#stepMs = stepMs;
  }

  /** Counts more events of one time; nothing lies ahead of now. */
  withEvents(counted: Counted, count: number, at: number, now: number): Counted {
    if (count <= 0) return counted;
    const time = Math.min(at, now);
    const [kept, same] = [[], []] as [(readonly [number, number])[], (readonly [number, number])[]];
    for (const step of this.#within(counted, now))
      (this.#stepOf(step[0]) === this.#stepOf(time) ? same : kept).push(step);
    const merged = [...same, [time, count] as const].reduce(([a, one], [b, other]) => [Math.max(a, b), one + other]);
    return this.#within([...kept, merged], now).toSorted(([one], [other]) => one - other);
  }

  /** The number of events within the window. */
  countOf(counted: Counted, now: number): number {
    return this.#within(counted, now).reduce((sum, [, count]) => sum + count, 0);
  }

  /** The first time at which at most `max` are left within the window. */
  leavesAt(counted: Counted, max: number, now: number): number {
    let left = this.countOf(counted, now);
    if (left <= max) return now;
    for (const [at, count] of this.#within(counted, now)) if ((left -= count) <= max) return at + this.spanMs;
    return now + this.spanMs;
  }

  /** For each of the next `max` events, the first time at which it makes no more than `max` within the window. */
  *roomsAt(counted: Counted, max: number, now: number): Generator<number, void> {
    let rooms = max - this.countOf(counted, now);
    for (; rooms > 0; rooms--) yield now;
    for (const [at, count] of this.#within(counted, now)) {
      for (rooms += count; rooms > 0; rooms--) yield at + this.spanMs;
    }
  }

  #within(counted: Counted, now: number): Counted {
    return counted.filter(([at]) => at > now - this.spanMs);
  }

  #stepOf(at: number): number {
    return Math.floor(at / this.#stepMs);
  }
}

/** At most 361 steps. */
export const HOUR = new RollingWindow('hour', HOUR_MS, HOUR_STEP_MS);
/** At most 145 steps. */
export const DAY = new RollingWindow('day', 24 * HOUR_MS, DAY_STEP_MS);

/** What was counted, after the clock was set back: nothing happened later than now. */
export function setBack(counted: Counted, now: number): Counted {
  return counted.map(([at, count]) => [Math.min(at, now), count]);
}

/**
 * What happened within the last hour or day, counted: requests that were sent, answers 429. In steps, each with the
 * time of its latest event, so that its size is bounded and nothing leaves the window early. Pure. Times in
 * milliseconds.
 */
/** `[time of the latest, count]` of each step, oldest first. */
type Counted = readonly (readonly [at: number, count: number])[];

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

  /** How many happened within the window. */
  countOf(counted: Counted, now: number): number {
    return this.#within(counted, now).reduce((sum, [, count]) => sum + count, 0);
  }

  /** The first time at which at most `max` are left within the window. */
  leavesAt(counted: Counted, max: number, now: number): number {
    return this.roomsAt(counted, max + 1, now).next().value ?? now + this.spanMs;
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
export const HOUR = new RollingWindow('hour', 3_600_000, 10_000);
/** At most 145 steps. */
export const DAY = new RollingWindow('day', 24 * 3_600_000, 10 * 60_000);

/** What was counted, after the clock was set back: nothing happened later than now. */
export function setBack(counted: Counted, now: number): Counted {
  return counted.map(([at, count]) => [Math.min(at, now), count]);
}

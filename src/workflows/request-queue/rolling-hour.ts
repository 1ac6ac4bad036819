/**
 * Counts what happened within the last hour: requests that were sent, answers 429. Kept in steps of 10 seconds, each
 * with the time of its latest event, so that its size is bounded and nothing leaves the hour early. Pure.
 */

export const HOUR_MS = 3_600_000;
/** Bounds the memory: at most 361 steps make an hour. */
const STEP_MS = 10_000;

/** `[time of the latest, count]` of one step; times in milliseconds. */
type Step = [number, number];

export class RollingHour {
  /** Oldest first. */
  readonly #steps: Step[];

  constructor(steps: readonly Step[]) {
    this.#steps = steps.map(([at, count]) => [at, count]);
  }

  /** 0 where nothing is remembered. */
  get latestAt(): number {
    return this.#steps.at(-1)?.[0] ?? 0;
  }

  /** Adds events of one time; those that are over an hour old are forgotten. */
  add(at: number, count: number, now: number): void {
    this.#forget(now);
    if (count <= 0 || at <= now - HOUR_MS) return;
    const name = stepOf(at);
    let index = this.#steps.length;
    while (index > 0 && stepOf((this.#steps[index - 1] as Step)[0]) > name) index -= 1;
    const step = this.#steps[index - 1];
    if (step && stepOf(step[0]) === name) {
      step[0] = Math.max(step[0], at);
      step[1] += count;
    } else this.#steps.splice(index, 0, [at, count]);
  }

  /** How many happened within the hour that ends at a time. */
  countAt(time: number): number {
    let count = 0;
    for (const [at, events] of this.#steps) if (at > time - HOUR_MS) count += events;
    return count;
  }

  /** The first time at which at most so many are left within the hour. */
  leavesAt(max: number, now: number): number {
    let left = this.countAt(now);
    if (left <= max) return now;
    for (const [at, events] of this.#steps) {
      if (at <= now - HOUR_MS) continue;
      left -= events;
      if (left <= max) return at + HOUR_MS;
    }
    return now + HOUR_MS;
  }

  /** Nothing happened after a time. */
  endAt(time: number): void {
    for (const step of this.#steps) step[0] = Math.min(step[0], time);
  }

  /** The steps within the hour, oldest first. */
  steps(now: number): Step[] {
    this.#forget(now);
    return this.#steps.map(([at, count]) => [at, count]);
  }

  #forget(now: number): void {
    let old = 0;
    while (old < this.#steps.length && (this.#steps[old] as Step)[0] <= now - HOUR_MS) old += 1;
    this.#steps.splice(0, old);
  }
}

function stepOf(at: number): number {
  return Math.floor(at / STEP_MS);
}

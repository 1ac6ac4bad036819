/**
 * Lanes: after a 429 one kind of write of one project waits in this worker, all of its callers together, so that a thousand
 * waiting creates don't knock one by one. When the time is over one goes ahead, and each success lets one more be under way.
 */
import { NEXT_TURN_MS, throttledWaitMs, TURN_MS } from '../../agent-job/poll-plan.js';

interface Lane {
  closedUntil: number;
  /** 429 in a row. */
  refusals: number;
  /** How many may be under way at once. */
  width: number;
  /** Who is. */
  readonly underWay: Set<string>;
  /** Who was told to go ahead and has not come yet, and until when they may. */
  readonly turns: Map<string, number>;
  usedAt: number;
}

export interface LanesOptions {
  /** In milliseconds. */
  now?: () => number;
  /** How many of those that wait may ask for a turn in a second, all lanes together. */
  asksPerSecond?: number;
  /** 0 to 1. */
  random?: () => number;
}

const OPEN_WIDTH = 1_024;
/** What a 429 taught is forgotten after this time without a write. */
const FORGET_AFTER_MS = 60 * 60_000;
/** Somebody who does not ask again for this long after their time waits no more. */
const GONE_AFTER_MS = 60_000;
export const ASKS_PER_SECOND = 20;

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  /** Who waits, and when they are to ask again. */
  readonly #waiting = new Map<string, number>();
  readonly #now: () => number;
  readonly #asksPerSecond: number;
  readonly #random: () => number;

  constructor({
    now = () => performance.now(),
    asksPerSecond = ASKS_PER_SECOND,
    random = Math.random,
  }: LanesOptions = {}) {
    this.#now = now;
    this.#asksPerSecond = asksPerSecond;
    this.#random = random;
  }

  /** How long a write has to wait, in milliseconds; 0 lets it pass, and `leave` or `close` must follow. */
  enter(name: string, holder: string, hasTurn: boolean): number {
    const lane = this.#find(name);
    if (!lane) return 0;
    // Whichever worker gave the turn: it is kept, unless a 429 came in between.
    const waitMs = hasTurn ? lane.closedUntil - this.#now() : this.#waitMs(lane, holder);
    if (waitMs > 0) return Math.ceil(waitMs);
    lane.turns.delete(holder);
    lane.underWay.add(holder);
    return 0;
  }

  /** How long one that waits for a turn has to wait before it asks again, in milliseconds; 0 gives it a turn. */
  take(name: string, holder: string): number {
    // Somebody waits, so there was a 429, if only in another worker.
    const lane = this.#find(name) ?? this.#open(name);
    const waitMs = this.#waitMs(lane, holder);
    if (waitMs > 0) return this.postpone(holder, waitMs);
    this.#waiting.delete(holder);
    lane.turns.set(holder, this.#now() + TURN_MS);
    return 0;
  }

  /** When one that waits is to ask again, in milliseconds: never all of them at once. */
  postpone(holder: string, waitMs: number): number {
    const now = this.#now();
    this.#waiting.set(holder, now + waitMs);
    const spreadMs = (2 * 1_000 * this.#askingBefore(now + waitMs + GONE_AFTER_MS)) / this.#asksPerSecond;
    const delay = Math.ceil(waitMs + this.#random() * spreadMs);
    this.#waiting.set(holder, now + delay);
    return delay;
  }

  /** How many are to ask before a time; who waits for an hour is not in the way of those who wait for seconds. */
  #askingBefore(time: number): number {
    let count = 0;
    for (const [holder, due] of this.#waiting) {
      if (due + GONE_AFTER_MS < this.#now()) this.#waiting.delete(holder);
      else if (due <= time) count += 1;
    }
    return count;
  }

  /** Ends what `enter` let pass; only a success lets more follow. */
  leave(name: string, holder: string, isSuccess: boolean): void {
    const lane = this.#find(name);
    if (!lane) return;
    lane.underWay.delete(holder);
    if (!isSuccess || lane.closedUntil > this.#now()) return;
    lane.refusals = 0;
    lane.width += 1;
    if (lane.width >= OPEN_WIDTH) this.#lanes.delete(name);
  }

  /** Ends what `enter` let pass and was answered 429: the lane closes, for as long as `Retry-After` said or ever longer. */
  close(name: string, holder: string, retryAfterMs: number | undefined): void {
    const lane = this.narrow(name, holder);
    // Those that were under way together are one refusal.
    if (lane.closedUntil <= this.#now()) lane.refusals += 1;
    lane.closedUntil = Math.max(lane.closedUntil, this.#now() + throttledWaitMs(lane.refusals, retryAfterMs));
  }

  /** Ends what `enter` let pass and was refused: those that follow go one by one. */
  narrow(name: string, holder: string): Lane {
    const lane = this.#find(name) ?? this.#open(name);
    lane.underWay.delete(holder);
    lane.width = 1;
    lane.turns.clear();
    return lane;
  }

  #open(name: string): Lane {
    const lane = {
      closedUntil: 0,
      refusals: 0,
      width: 1,
      underWay: new Set<string>(),
      turns: new Map<string, number>(),
      usedAt: this.#now(),
    };
    this.#lanes.set(name, lane);
    return lane;
  }

  #find(name: string): Lane | undefined {
    const lane = this.#lanes.get(name);
    if (!lane) return undefined;
    const isForgotten = this.#now() - Math.max(lane.usedAt, lane.closedUntil) > FORGET_AFTER_MS;
    if (isForgotten && lane.underWay.size === 0) {
      this.#lanes.delete(name);
      return undefined;
    }
    lane.usedAt = this.#now();
    return lane;
  }

  #waitMs(lane: Lane, holder: string): number {
    const closedFor = lane.closedUntil - this.#now();
    if (closedFor > 0) return closedFor;
    for (const [other, until] of lane.turns) if (until <= this.#now()) lane.turns.delete(other);
    if (lane.turns.has(holder) || lane.underWay.size + lane.turns.size < lane.width) return 0;
    return NEXT_TURN_MS;
  }
}

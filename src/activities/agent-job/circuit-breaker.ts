/**
 * A circuit breaker for each kind of write of each project. A 429 opens it: all writes of the kind wait in this worker,
 * so that a thousand waiting creates don't try one by one. When the time is over it is half open with one permit; each
 * success adds a permit.
 */
import { NEXT_TURN_MS, throttledWaitMs, TURN_MS } from '../../agent-job/retry-waits.js';

interface Breaker {
  openUntil: number;
  /** 429 in a row. */
  throttles: number;
  /** How many writes may be in flight at once while it is half open. */
  permits: number;
  /** Who is in flight. */
  readonly inFlight: Set<string>;
  /** Who holds a permit and has not sent yet, and until when they may. */
  readonly reserved: Map<string, number>;
  usedAt: number;
}

export interface CircuitBreakerOptions {
  /** In milliseconds. */
  now?: () => number;
  /** How many of those that wait may ask for a turn in a second, all breakers together. */
  asksPerSecond?: number;
  /** 0 to 1. */
  random?: () => number;
}

/** With so many permits a breaker is closed. */
const PERMITS_TO_CLOSE = 1_024;
/** A breaker is forgotten after this time without a write. */
const FORGET_AFTER_MS = 60 * 60_000;
/** Somebody who does not ask again for this long after their time waits no more. */
const GONE_AFTER_MS = 60_000;
export const ASKS_PER_SECOND = 20;

export class CircuitBreakers {
  readonly #breakers = new Map<string, Breaker>();
  /** Who waits, and when they are to ask again. */
  readonly #waiting = new Map<string, number>();
  readonly #now: () => number;
  readonly #asksPerSecond: number;
  readonly #random: () => number;

  constructor({
    now = () => performance.now(),
    asksPerSecond = ASKS_PER_SECOND,
    random = Math.random,
  }: CircuitBreakerOptions = {}) {
    this.#now = now;
    this.#asksPerSecond = asksPerSecond;
    this.#random = random;
  }

  /** How long a write has to wait, in milliseconds; 0 lets it pass, and `release`, `trip` or `halfOpen` must follow. */
  acquire(name: string, holder: string, hasTurn: boolean): number {
    const breaker = this.#find(name);
    if (!breaker) return 0;
    // A turn from any worker counts, unless a 429 came in between.
    const waitMs = hasTurn ? breaker.openUntil - this.#now() : this.#waitMs(breaker, holder);
    if (waitMs > 0) return Math.ceil(waitMs);
    breaker.reserved.delete(holder);
    breaker.inFlight.add(holder);
    return 0;
  }

  /** How long one that waits for a turn has to wait before it asks again, in milliseconds; 0 gives it a turn. */
  reserve(name: string, holder: string): number {
    // Somebody waits, so there was a 429, if only in another worker.
    const breaker = this.#find(name) ?? this.#create(name);
    const waitMs = this.#waitMs(breaker, holder);
    if (waitMs > 0) return this.postpone(holder, waitMs);
    this.#waiting.delete(holder);
    breaker.reserved.set(holder, this.#now() + TURN_MS);
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

  /** Ends what `acquire` let pass; only a success adds a permit. */
  release(name: string, holder: string, isSuccess: boolean): void {
    const breaker = this.#find(name);
    if (!breaker) return;
    breaker.inFlight.delete(holder);
    if (!isSuccess || breaker.openUntil > this.#now()) return;
    breaker.throttles = 0;
    breaker.permits += 1;
    if (breaker.permits >= PERMITS_TO_CLOSE) this.#breakers.delete(name);
  }

  /**
   * Ends what `acquire` let pass and was answered 429: the breaker opens, for as long as `Retry-After` said or ever
   * longer.
   */
  trip(name: string, holder: string, retryAfterMs: number | undefined): void {
    const breaker = this.halfOpen(name, holder);
    // Those that were in flight together count as one 429.
    if (breaker.openUntil <= this.#now()) breaker.throttles += 1;
    breaker.openUntil = Math.max(breaker.openUntil, this.#now() + throttledWaitMs(breaker.throttles, retryAfterMs));
  }

  /** Ends what `acquire` let pass and was refused for want of a key: those that follow go one by one. */
  halfOpen(name: string, holder: string): Breaker {
    const breaker = this.#find(name) ?? this.#create(name);
    breaker.inFlight.delete(holder);
    breaker.permits = 1;
    breaker.reserved.clear();
    return breaker;
  }

  #create(name: string): Breaker {
    const breaker = {
      openUntil: 0,
      throttles: 0,
      permits: 1,
      inFlight: new Set<string>(),
      reserved: new Map<string, number>(),
      usedAt: this.#now(),
    };
    this.#breakers.set(name, breaker);
    return breaker;
  }

  #find(name: string): Breaker | undefined {
    const breaker = this.#breakers.get(name);
    if (!breaker) return undefined;
    const isForgotten = this.#now() - Math.max(breaker.usedAt, breaker.openUntil) > FORGET_AFTER_MS;
    if (isForgotten && breaker.inFlight.size === 0) {
      this.#breakers.delete(name);
      return undefined;
    }
    breaker.usedAt = this.#now();
    return breaker;
  }

  #waitMs(breaker: Breaker, holder: string): number {
    const openFor = breaker.openUntil - this.#now();
    if (openFor > 0) return openFor;
    for (const [other, until] of breaker.reserved) if (until <= this.#now()) breaker.reserved.delete(other);
    if (breaker.reserved.has(holder) || breaker.inFlight.size + breaker.reserved.size < breaker.permits) return 0;
    return NEXT_TURN_MS;
  }
}

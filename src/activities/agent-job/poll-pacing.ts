/** Decides when the polls of one worker begin: at most 1,000 a second, and none once it shuts down. */
import { setTimeout as pause } from 'node:timers/promises';
import { nextAttemptIn } from './poll-attempt.js';

/** 1,000 a second. */
const SPACING_MS = 1;
/** After a pause the polls of this time may begin together. */
const BURST_MS = 100;
/** The server keeps a longer wait: an attempt has time for its poll, too. */
const MAX_WAIT_HERE_MS = 2_000;
/** Polls under way in one worker: a hanging upstream leaves room for writes. */
const MAX_CONCURRENT_POLLS = 4_000;
/** A worker with that number of polls tries again after this time. */
const FULL_WAIT_MS = 2_000;

/**
 * After an outage the polls of all jobs are due in the same second. If they began together, each would open a
 * connection to the upstream at once. So a worker begins them one after the other (a leaky bucket), and hands the rest
 * back to the server, each with a time of its own.
 */
export class PollPacing {
  readonly #shutdownSignal: AbortSignal;
  readonly #now: () => number;
  #inFlight = 0;
  /** When the next one here, and the next one that is handed back, may begin. */
  #nextAt = -Infinity;
  #laterAt = -Infinity;

  constructor(shutdownSignal: AbortSignal, now: () => number = () => performance.now()) {
    this.#shutdownSignal = shutdownSignal;
    this.#now = now;
  }

  /** The time that a poll must wait before it begins. After a wait that is not short, it asks again. */
  reserve(): { ms: number; why: string; isShort: boolean } {
    if (this.#inFlight >= MAX_CONCURRENT_POLLS)
      return { ms: FULL_WAIT_MS, why: 'this worker has too many polls under way', isShort: false };
    const now = this.#now();
    const nextAt = Math.max(this.#nextAt, now - BURST_MS) + SPACING_MS;
    const isShort = nextAt - now <= MAX_WAIT_HERE_MS;
    if (isShort) this.#nextAt = nextAt;
    else this.#laterAt = Math.max(this.#laterAt, nextAt) + SPACING_MS;
    const ms = isShort ? Math.max(0, nextAt - now) : this.#laterAt - now;
    return { ms, why: 'many polls are due at once', isShort };
  }

  /** Returns when a poll may begin; throws a retryable failure if it must wait for a later attempt. */
  async wait(): Promise<void> {
    this.#throwInShutdown();
    const { ms, why, isShort } = this.reserve();
    if (!isShort) throw nextAttemptIn(why, ms);
    if (ms > 0) await pause(Math.ceil(ms), undefined, { signal: this.#shutdownSignal }).catch(() => {});
    this.#throwInShutdown();
  }

  /** Counts a poll while it is under way. */
  async count<T>(poll: () => Promise<T>): Promise<T> {
    this.#inFlight += 1;
    return poll().finally(() => (this.#inFlight -= 1));
  }

  #throwInShutdown(): void {
    if (this.#shutdownSignal.aborted) throw nextAttemptIn('the worker is shutting down', 1);
  }
}

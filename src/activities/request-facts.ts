/**
 * What this worker knows of the requests of each project and kind: the last 429, and whether a queue orders them. Times
 * in milliseconds, all by one clock that is never put back.
 */
import { throttledWaitMs } from '../agent-job/retry-waits.js';

/** A queue that has ended, or that another worker began, is noticed within this time. */
const ASK_EVERY_MS = 30_000;
/** Without a queue: each worker may meet so many answers 429 at once. */
const LINE_WIDTH = 8;
/** Each needs a connection of its own. */
const UNLIMITED_WIDTH = 100;
const HOUR_MS = 3_600_000;
/** What nobody uses is forgotten, so that a worker that serves every project keeps little. */
const SWEEP_ABOVE = 1_000;

interface Facts {
  throttledAt: number;
  /** Where no queue can be asked, nothing is sent before. */
  notBefore: number;
  /** The last 429 is being told to the queue. */
  told: Promise<unknown>;
  queue: { isRunning: boolean; askedAt: number } | null;
  /** The question that is under way. */
  asking: Promise<boolean> | null;
  usedAt: number;
}

export class RequestFacts {
  readonly #facts = new Map<string, Facts>();

  /** How many may be sent at a time without a queue: many where the upstream is said to take any number. */
  lineWidth(name: string, now: number, isUnlimited: boolean): number {
    if (now - this.#of(name, now).throttledAt < HOUR_MS) return 1;
    return isUnlimited ? UNLIMITED_WIDTH : LINE_WIDTH;
  }

  throttled(name: string, now: number, retryAfterMs: number | undefined): void {
    const facts = this.#of(name, now);
    facts.throttledAt = now;
    facts.notBefore = Math.max(facts.notBefore, now + throttledWaitMs(1, retryAfterMs));
  }

  /** A 429 is being told to the queue. */
  telling(name: string, now: number, told: Promise<unknown>): void {
    this.#of(name, now).told = told.catch(() => {});
  }

  /**
   * Resolves once the queue knows of the last 429, or can't be told: those that it makes wait must not join a queue
   * that knows of no budget.
   */
  async whenTold(name: string, now: number): Promise<void> {
    await this.#of(name, now).told;
  }

  /** For how long nothing should be sent where no queue can be asked, in milliseconds. */
  restMs(name: string, now: number): number {
    return Math.max(0, Math.ceil(this.#of(name, now).notBefore - now));
  }

  queueIsRunning(name: string, now: number): void {
    this.#of(name, now).queue = { isRunning: true, askedAt: now };
  }

  /**
   * Whether a queue orders these requests. Undefined where that is not known: then it is being asked, and `whenAsked`
   * has the answer. Whoever saw a queue a while ago waits for the answer here.
   */
  async hasQueue(name: string, now: number, ask: () => Promise<boolean | null>): Promise<boolean | undefined> {
    const facts = this.#of(name, now);
    if (now - facts.throttledAt < HOUR_MS) return true;
    if (facts.queue && now - facts.queue.askedAt < ASK_EVERY_MS) return facts.queue.isRunning;
    facts.asking ??= this.#ask(facts, now, ask);
    return facts.queue?.isRunning ? facts.asking : undefined;
  }

  /** False where the queue is not there, or nobody can tell. */
  async whenAsked(name: string, now: number): Promise<boolean> {
    const facts = this.#of(name, now);
    return facts.asking ?? facts.queue?.isRunning ?? false;
  }

  async #ask(facts: Facts, now: number, ask: () => Promise<boolean | null>): Promise<boolean> {
    const isRunning = await ask();
    facts.asking = null;
    // Somebody may have joined it meanwhile.
    if (facts.queue && facts.queue.askedAt > now) return facts.queue.isRunning;
    facts.queue = isRunning === null ? null : { isRunning, askedAt: now };
    return isRunning ?? false;
  }

  #of(name: string, now: number): Facts {
    let facts = this.#facts.get(name);
    if (!facts) {
      if (this.#facts.size >= SWEEP_ABOVE) this.#sweep(now);
      facts = {
        throttledAt: -Infinity,
        notBefore: 0,
        told: Promise.resolve(),
        queue: null,
        asking: null,
        usedAt: now,
      };
      this.#facts.set(name, facts);
    }
    facts.usedAt = Math.max(facts.usedAt, now);
    return facts;
  }

  #sweep(now: number): void {
    for (const [name, { usedAt, asking }] of this.#facts) {
      if (now - usedAt > HOUR_MS && !asking) this.#facts.delete(name);
    }
  }
}

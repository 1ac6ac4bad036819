/** Rate limits of the sandbox: which requests get a 429, and with which `Retry-After`. */
import * as z from 'zod';
import type { Operation } from './route.js';

const count = z.int().min(0).optional();

export const rateLimitsSchema = z.strictObject({
  /** Requests per window and project. */
  create: count,
  /** Requests per window and project. */
  message: count,
  /** Requests per window, shared by all projects (one organisation). */
  visitors: count,
  /** Default: one hour. */
  windowMs: z.number().positive().optional(),
  /** `sliding` (default): the last `windowMs`. `fixed`: since the clock last passed a multiple of `windowMs`. */
  window: z.enum(['sliding', 'fixed']).optional(),
  /** Form of `Retry-After` on a 429; default: none, as the upstream promises none. */
  retryAfter: z.enum(['none', 'seconds', 'date']).optional(),
});

/** Accepted requests per window; an operation without a number is not limited. */
export type RateLimits = z.input<typeof rateLimitsSchema>;

const HOUR_MS = 3_600_000;

/** Counts accepted requests; a throttled one does not count. */
export class RateLimiter {
  readonly #passed = new Map<string, number[]>();
  #limits: RateLimits;

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  replace(limits: RateLimits): void {
    this.#limits = limits;
    this.#passed.clear();
  }

  /** Undefined where the request is accepted; else the headers of the 429. */
  refuse(operation: Operation, projectId: string, now: number): Record<string, string> | undefined {
    const limit = operation === 'get' ? undefined : this.#limits[operation];
    if (limit === undefined) return undefined;
    const key = operation === 'visitors' ? operation : `${operation}/${projectId}`;
    const windowMs = this.#limits.windowMs ?? HOUR_MS;
    const fixed = this.#limits.window === 'fixed';
    const since = fixed ? now - (now % windowMs) : now - windowMs + 1;
    const times = (this.#passed.get(key) ?? []).filter((time) => time >= since);
    this.#passed.set(key, times);
    if (times.length < limit) {
      times.push(now);
      return undefined;
    }
    return this.#retryAfter((fixed ? since : (times[0] ?? now)) + windowMs - now);
  }

  #retryAfter(waitMs: number): Record<string, string> {
    if (this.#limits.retryAfter === 'seconds') return { 'retry-after': String(Math.ceil(waitMs / 1000)) };
    // A caller compares the date with its own clock, so the date is in real time.
    if (this.#limits.retryAfter === 'date') return { 'retry-after': new Date(Date.now() + waitMs).toUTCString() };
    return {};
  }
}

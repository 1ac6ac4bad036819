/** The accepted keys, and the limits whose excess is a 429. */
import * as z from 'zod';
import { HOUR_MS } from '../contract/shared.js';
import { errorResponse, type HttpResponse, type Operation } from './http.js';

/** The key that a sandbox accepts by default; no upstream takes this key. */
export const SANDBOX_API_KEY = 'sandbox_admin_not_a_secret';

/** The shape of a key. */
export const apiKeySchema = z.union([
  z.string().min(1),
  /** A key with the only projects that it may touch. */
  z.strictObject({ key: z.string().min(1), projectIds: z.array(z.string()) }),
]);

/** A key that the sandbox accepts: the text alone, or with its projects. */
export type ApiKey = z.input<typeof apiKeySchema>;

/** Accepted keys: 401 for a wrong one, 403 for a foreign project. */
export class ApiKeys {
  #projectIds = new Map<string, string[] | undefined>();

  constructor(keys: ApiKey[]) {
    this.replace(keys);
  }

  replace(keys: ApiKey[]): void {
    this.#projectIds = new Map(
      keys.map((key) => (typeof key === 'string' ? [key, undefined] : [key.key, key.projectIds])),
    );
  }

  /** The refusal of a request, or undefined if it may pass. */
  refuse(authorization: string | undefined, operation: Operation, projectId: string): HttpResponse | undefined {
    const key = authorization?.startsWith('Bearer ') ? authorization.slice('Bearer '.length) : '';
    if (!this.#projectIds.has(key)) return errorResponse(operation, 401, 'Invalid or expired API key');
    if (this.#projectIds.get(key)?.includes(projectId) !== false) return undefined;
    return errorResponse(operation, 403, 'API key has no access to this project');
  }
}

const count = z.int().min(0).optional();

/** The shape of the limits. */
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
  /** Whether a 429 has `Retry-After`; default: none, as the upstream promises none. */
  retryAfter: z.enum(['none', 'seconds']).optional(),
});

/** Accepted requests per window; an operation without a number is not limited. */
export type RateLimits = z.input<typeof rateLimitsSchema>;

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

  /** Undefined if the request is accepted; else the headers of the 429. */
  throttle(operation: Operation, projectId: string, now: number): Record<string, string> | undefined {
    const limit = operation === 'get' ? undefined : this.#limits[operation];
    if (limit === undefined) return undefined;
    const key = operation === 'visitors' ? operation : `${operation}/${projectId}`;
    const { windowMs = HOUR_MS, window } = this.#limits;
    const since = window === 'fixed' ? now - (now % windowMs) : now - windowMs + 1;
    const times = (this.#passed.get(key) ?? []).filter((time) => time >= since);
    this.#passed.set(key, times);
    if (times.length < limit) return void times.push(now);
    const waitMs = (window === 'fixed' ? since : (times[0] ?? now)) + windowMs - now;
    return this.#limits.retryAfter === 'seconds' ? { 'retry-after': String(Math.ceil(waitMs / 1000)) } : {};
  }
}

/** Who asks too often waits: the requests of each caller are counted, in this process alone. */
import { Problem } from './problem.js';

const WINDOW_MS = 10_000;
const MAX_REQUESTS = 2_000;

/** Counts requests in windows of time. */
export class Rates {
  readonly #maxRequests: number;
  #window = 0;
  #requests = new Map<string, number>();

  constructor(maxRequests = MAX_REQUESTS) {
    this.#maxRequests = maxRequests;
  }

  /** Throws a problem 429. */
  take(caller: string, now = Date.now()): void {
    const window = Math.floor(now / WINDOW_MS);
    if (window !== this.#window) this.#requests = new Map();
    this.#window = window;
    const requests = (this.#requests.get(caller) ?? 0) + 1;
    this.#requests.set(caller, requests);
    if (requests <= this.#maxRequests) return;
    const headers = { 'retry-after': String(Math.ceil(((window + 1) * WINDOW_MS - now) / 1_000)) };
    const detail = `at most ${this.#maxRequests} requests in ${WINDOW_MS / 1_000} seconds`;
    throw new Problem(429, detail, { retryable: true, headers });
  }
}

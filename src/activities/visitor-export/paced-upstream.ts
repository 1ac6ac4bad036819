/**
 * The request rate of one export: it counts a chunk's requests and says how long to wait after them. The wait itself is
 * in the workflow: range-export.ts waits.
 */
import { startServerClock } from '../../temporal/activity-attempt.js';
import type { Upstream } from '../../upstream/upstream.js';

/** At full speed 100,000 rows are four chunks; the chunk of a killed worker is read again. */
const MAX_REQUESTS = 120;
/** A paced chunk is five minutes' worth of requests, so that history stays short. */
const CHUNKS_PER_HOUR = 12;
const HOUR_MS = 3_600_000;

/** Counts the requests of a chunk, however it ends, and computes the wait that the pace requires after them. */
export class PacedUpstream {
  requests = 0;
  readonly #upstream: Upstream;
  readonly #requestsPerHour: number | undefined;
  readonly #now = startServerClock();

  constructor(upstream: Upstream, requestsPerHour: number | undefined) {
    this.#upstream = upstream;
    this.#requestsPerHour = requestsPerHour;
  }

  getVisitors(...args: Parameters<Upstream['getVisitors']>): ReturnType<Upstream['getVisitors']> {
    this.requests++;
    return this.#upstream.getVisitors(...args);
  }

  /** The most requests of one chunk. */
  get maxRequests(): number {
    if (this.#requestsPerHour === undefined) return MAX_REQUESTS;
    return Math.min(MAX_REQUESTS, Math.max(1, Math.floor(this.#requestsPerHour / CHUNKS_PER_HOUR)));
  }

  get paceMs(): number {
    return this.#requestsPerHour === undefined ? 0 : Math.ceil((this.requests * HOUR_MS) / this.#requestsPerHour);
  }

  /** When the pace allows the next request, ISO 8601; undefined where there is nothing to wait for. */
  nextRequestAt(): string | undefined {
    return this.paceMs > 0 ? new Date(this.#now() + this.paceMs).toISOString() : undefined;
  }
}

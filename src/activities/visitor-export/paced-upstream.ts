/**
 * The requests of one chunk: how many it may make, and how many it made. They have a turn of the queue of all exports,
 * or none: no budget is set, or the queue is silent. Without a turn a set budget is kept by a wait after the chunk. The
 * wait itself is in the workflow: range-export.ts waits.
 */
import type { RequestReport, RequestTurn } from '../../contract/request-queue.js';
import { startLateClock, startServerClock } from '../../temporal/activity-attempt.js';
import { ReadFailedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';

/** At full speed 100,000 rows are four chunks; the chunk of a killed worker is read again. */
const MAX_REQUESTS = 120;
/** A paced chunk is five minutes' worth of requests, so that history stays short. */
const CHUNKS_PER_HOUR = 12;
/** Asked for at a time where no budget is set, and the upstream answered 429: a twelfth of the budget it documents. */
const REQUESTS_OF_UNKNOWN_BUDGET = 8;
const HOUR_MS = 3_600_000;
const TOO_MANY_REQUESTS = 429;

/** How many requests a chunk asks a turn for. */
export function requestsOfTurn(requestsPerHour: number | undefined): number {
  if (requestsPerHour === undefined) return REQUESTS_OF_UNKNOWN_BUDGET;
  return Math.min(MAX_REQUESTS, Math.max(1, Math.floor(requestsPerHour / CHUNKS_PER_HOUR)));
}

/** Counts the requests of a chunk, however it ends, and computes the wait that the pace requires after them. */
export class PacedUpstream {
  requests = 0;
  #throttled: { retryAfterMs?: number } | null = null;
  readonly #upstream: Upstream;
  readonly #requestsPerHour: number | undefined;
  readonly #turn: RequestTurn | null;
  readonly #now = startServerClock();
  readonly #startedAt = this.#now();
  readonly #lateNow = startLateClock();

  constructor(upstream: Upstream, requestsPerHour: number | undefined, turn: RequestTurn | null) {
    this.#upstream = upstream;
    this.#requestsPerHour = requestsPerHour;
    this.#turn = turn;
  }

  getVisitors(...args: Parameters<Upstream['getVisitors']>): ReturnType<Upstream['getVisitors']> {
    this.requests++;
    return this.#upstream.getVisitors(...args).catch((error: unknown) => {
      if (error instanceof ReadFailedError && error.status === TOO_MANY_REQUESTS) {
        this.#throttled = error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs };
      }
      throw error;
    });
  }

  /** The most requests of this chunk. */
  get maxRequests(): number {
    if (this.#turn) return Math.min(MAX_REQUESTS, this.#turn.requests);
    return this.#requestsPerHour === undefined ? MAX_REQUESTS : requestsOfTurn(this.#requestsPerHour);
  }

  /**
   * For how long requests may be sent, in milliseconds. The server's clock in an activity does not know how long the
   * attempt waited for a worker: at most the first half of the turn's time. So the other half is left for requests.
   */
  get usableMs(): number {
    if (!this.#turn) return Number.POSITIVE_INFINITY;
    return (this.#turn.until - this.#startedAt) / 2 - (this.#now() - this.#startedAt);
  }

  get paceMs(): number {
    if (this.#turn || this.#requestsPerHour === undefined) return 0;
    return Math.ceil((this.requests * HOUR_MS) / this.#requestsPerHour);
  }

  /** When the pace allows the next request, ISO 8601; undefined where there is nothing to wait for. */
  nextRequestAt(): string | undefined {
    return this.paceMs > 0 ? new Date(this.#now() + this.paceMs).toISOString() : undefined;
  }

  /** What became of the requests, for the queue; undefined where none was sent, and no turn was given. */
  report(): RequestReport | undefined {
    const { requests } = this;
    const turn = this.#turn?.turn ?? null;
    const at = Math.round(this.#lateNow());
    if (requests === 0) return turn === null ? undefined : { turn, outcome: 'unsent', at };
    if (this.#throttled) return { turn, outcome: 'throttled', at, requests, ...this.#throttled };
    return { turn, outcome: 'accepted', at, requests };
  }
}

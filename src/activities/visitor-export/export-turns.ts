/**
 * The turns of exports, which all share one queue: the requests that a chunk asks a turn for, and those that it made. A
 * chunk has a turn unless no budget is set and no queue runs.
 */
import type { QueueName, Turn } from '../../contract.js';
import { startClock } from '../../temporal/activity-attempt.js';
import { ReadFailedError } from '../../upstream/errors.js';
import type { ReadOptions, Upstream, VisitorPage, VisitorsRequest } from '../../upstream/upstream.js';
import type { TurnRequest, Used, WantedTurn } from '../turns.js';

/** How an export asks for its turn; `taskQueue` is that on which the queue runs. */
export type ExportTurnRequest = TurnRequest & { taskQueue: string };

const ALL_EXPORTS: QueueName = { operation: 'visitors', projectId: null };

/** At full speed 100,000 rows are four chunks; the chunk of a killed worker is read again. */
const MAX_CHUNK_REQUESTS = 120;
/** A paced chunk is five minutes' worth of requests, so that history stays short. */
const CHUNKS_PER_HOUR = 12;
/** The requests of a turn if no budget is set and a 429 came: a twelfth of 100 an hour. */
const REQUESTS_OF_UNKNOWN_BUDGET = 8;
const TOO_MANY_REQUESTS = 429;

/** What the export of this activity asks its queue for. */
export function wantedTurn(request: ExportTurnRequest, requestsPerHour: number | undefined): WantedTurn {
  const { priority, askedAt, turn, isOverdue, taskQueue } = request;
  const requests = requestsOfTurn(requestsPerHour);
  return { priority, askedAt, turn, isOverdue, taskQueue, name: ALL_EXPORTS, requests, clock: startClock() };
}

function requestsOfTurn(requestsPerHour: number | undefined): number {
  if (requestsPerHour === undefined) return REQUESTS_OF_UNKNOWN_BUDGET;
  return Math.min(MAX_CHUNK_REQUESTS, Math.max(1, Math.floor(requestsPerHour / CHUNKS_PER_HOUR)));
}

/** Counts the requests of a chunk, however it ends. */
export class CountedUpstream {
  requests = 0;
  #throttled: { retryAfterMs?: number } | null = null;
  readonly #upstream: Upstream;
  readonly #turn: Turn | null;
  readonly #clock = startClock();
  readonly #startedAt = this.#clock.server();

  constructor(upstream: Upstream, turn: Turn | null) {
    this.#upstream = upstream;
    this.#turn = turn;
  }

  getVisitors(request: VisitorsRequest, options?: ReadOptions): Promise<VisitorPage> {
    this.requests++;
    return this.#upstream.getVisitors(request, options).catch((error: unknown) => {
      if (error instanceof ReadFailedError && error.status === TOO_MANY_REQUESTS) {
        this.#throttled = error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs };
      }
      throw error;
    });
  }

  /** The most requests of this chunk. */
  get maxRequests(): number {
    return Math.min(MAX_CHUNK_REQUESTS, this.#turn?.requests ?? Infinity);
  }

  /**
   * The time left for requests, in milliseconds. The attempt may have waited for a worker, at most half of the
   * turn's time, and the server's clock in an activity does not show that. So the other half is left for requests.
   */
  get usableMs(): number {
    if (!this.#turn) return Number.POSITIVE_INFINITY;
    return (this.#turn.until - this.#startedAt) / 2 - (this.#clock.server() - this.#startedAt);
  }

  /** What became of the requests, for the queue. */
  get used(): Used {
    const { requests } = this;
    if (requests === 0) return { outcome: 'unsent' };
    return this.#throttled ? { outcome: 'throttled', requests, ...this.#throttled } : { outcome: 'accepted', requests };
  }
}

/**
 * The turns of exports, which all share one queue. An activity that lacks a turn asks for one, as a write of a job
 * does, and reports what became of the last one. A turn that is never reported counts as spent.
 */
import { activityInfo } from '@temporalio/activity';
import type { Priority, QueueName, RequestReport } from '../../contract.js';
import type { RequestTurn } from '../../contract/request-queue.js';
import { startClock } from '../../temporal/activity-attempt.js';
import { ReadFailedError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';
import type { AskedTurn } from '../../exports/range-transitions.js';
import { QueueClient } from '../queue-client.js';

/** How an export asks for its turns. */
export interface TurnRequest {
  /** The task queue on which the queue runs. */
  taskQueue: string;
  priority: Priority;
  /** This export was answered 429: it needs turns, whether a budget is set or not. */
  isThrottled: boolean;
  /** When the export first asked for a turn that did not come in time; absent if it asks for the first time. */
  askedAt?: number;
  /** A turn that came and was not used: no worker was free in time. */
  unused?: string;
}

const ALL_EXPORTS: QueueName = { operation: 'visitors', projectId: null };

/** Speaks with the queue of all exports for the exports of this worker. */
export class TurnClient {
  readonly #requestsPerHour: number | undefined;
  readonly #queue: QueueClient;

  constructor(requestsPerHour: number | undefined) {
    this.#requestsPerHour = requestsPerHour;
    this.#queue = new QueueClient(() => ({ perHour: requestsPerHour ?? null }));
  }

  /**
   * Asks for a turn for the export of this activity, which needs one if a budget is set or it was answered 429. Null
   * if the export may read without a turn: it needs none, or no queue holds it.
   */
  async askIfNeeded(request: TurnRequest): Promise<AskedTurn | null> {
    const isSet = this.#requestsPerHour !== undefined;
    if (!isSet && !request.isThrottled) return null;
    const asked = await this.ask(request);
    // A budget that is set is kept, whether the queue can be asked or not.
    if (asked === null && isSet) throw new Error('The Temporal server did not take the request for a turn');
    return asked;
  }

  /** Asks for a turn, and reports what became of the one before. Null if no queue holds the export. */
  async ask(request: TurnRequest, given?: RequestReport): Promise<AskedTurn | null> {
    const { taskQueue, priority, unused, askedAt: first } = request;
    const workflowId = activityInfo().workflowExecution?.workflowId ?? '';
    const askedAt = Math.round(first ?? startClock().server());
    const report = unused === undefined ? given : ({ turn: unused, outcome: 'unsent', at: askedAt } as const);
    const asked = { workflowId, priority, askedAt, requests: requestsOfTurn(this.#requestsPerHour) };
    const options = { taskQueue, isOverdue: first !== undefined };
    const place = await this.#queue.join(ALL_EXPORTS, { ...asked, ...(report && { report }) }, options);
    return place && { askedAt, place };
  }

  /** Reports what became of a chunk after which no turn is asked for. */
  async report(report: RequestReport | undefined): Promise<void> {
    if (report && (report.turn !== null || report.outcome === 'throttled'))
      await this.#queue.report(ALL_EXPORTS, report);
  }
}

// The requests of one chunk: how many it may make, and how many it made. A chunk has a turn of the queue of all
// exports, unless no budget is set and the upstream has answered no 429.

/** At full speed 100,000 rows are four chunks; the chunk of a killed worker is read again. */
const MAX_REQUESTS = 120;
/** A paced chunk is five minutes' worth of requests, so that history stays short. */
const CHUNKS_PER_HOUR = 12;
/** The requests of a turn if no budget is set and a 429 came: a twelfth of the budget that the upstream documents. */
const REQUESTS_OF_UNKNOWN_BUDGET = 8;
const TOO_MANY_REQUESTS = 429;

/** How many requests a chunk asks a turn for. */
function requestsOfTurn(requestsPerHour: number | undefined): number {
  if (requestsPerHour === undefined) return REQUESTS_OF_UNKNOWN_BUDGET;
  return Math.min(MAX_REQUESTS, Math.max(1, Math.floor(requestsPerHour / CHUNKS_PER_HOUR)));
}

/** Counts the requests of a chunk, however it ends. */
export class CountedUpstream {
  requests = 0;
  #throttled: { retryAfterMs?: number } | null = null;
  readonly #upstream: Upstream;
  readonly #turn: RequestTurn | null;
  readonly #clock = startClock();
  readonly #startedAt = this.#clock.server();

  constructor(upstream: Upstream, turn: RequestTurn | null) {
    this.#upstream = upstream;
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
    return Math.min(MAX_REQUESTS, this.#turn?.requests ?? Infinity);
  }

  /**
   * For how long requests may be sent, in milliseconds. The attempt may have waited for a worker, at most half of the
   * turn's time, and the server's clock in an activity does not show that. So the other half is left for requests.
   */
  get usableMs(): number {
    if (!this.#turn) return Number.POSITIVE_INFINITY;
    return (this.#turn.until - this.#startedAt) / 2 - (this.#clock.server() - this.#startedAt);
  }

  /** What became of the requests, for the queue; undefined if none was sent, and no turn was given. */
  report(): RequestReport | undefined {
    const { requests } = this;
    const turn = this.#turn?.turn ?? null;
    const at = Math.round(this.#clock.late());
    if (requests === 0) return turn === null ? undefined : { turn, outcome: 'unsent', at };
    if (this.#throttled) return { turn, outcome: 'throttled', at, requests, ...this.#throttled };
    return { turn, outcome: 'accepted', at, requests };
  }
}

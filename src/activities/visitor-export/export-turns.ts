/**
 * The turns of exports in the one queue of all of them: an activity asks for the next turn, and tells what became of
 * the last one. A message that the Temporal server does not take costs time and no page: the workflow asks again, and
 * the queue counts a turn that nobody reports as spent.
 */
import { activityInfo } from '@temporalio/activity';
import {
  requestQueueId,
  type BudgetFacts,
  type Priority,
  type QueueName,
  type QueuePlace,
  type RequestReport,
} from '../../contract.js';
import { SharedServerClock, startServerClock } from '../../temporal/activity-attempt.js';
import { QueueClient, type Queued } from '../queue-client.js';
import { RequestFacts } from '../request-facts.js';
import { requestsOfTurn } from './paced-upstream.js';

/** How an export asks for its turns. */
export interface TurnRequest {
  /** Where the queue runs. */
  taskQueue: string;
  priority: Priority;
  /** When the export first asked for this turn, in milliseconds; absent where it asks for the first time. */
  askedAt?: number;
  /** A turn that came and was not used: no worker was free in time. */
  unused?: string;
}

/** A turn that was asked for. */
export interface AskedTurn {
  askedAt: number;
  /** Null where the queue told none: it is silent, or the turn is on the way. */
  place: QueuePlace | null;
  /** Whether the queue answered; a silent one may be dead. */
  isAnswered: boolean;
}

const ALL_EXPORTS: QueueName = { operation: 'visitors', projectId: null };
const NAME = requestQueueId(ALL_EXPORTS);

/** Speaks with the queue of all exports for the exports of this worker. */
export class TurnClient {
  /** By which chunks tell each other, and the queue, of their requests. */
  readonly clock: SharedServerClock;
  readonly #requestsPerHour: number | undefined;
  readonly #queue = new QueueClient();
  /** Requests without a turn of which the queue was not told: it learns the budget from them. */
  readonly #facts = new RequestFacts();

  constructor(requestsPerHour: number | undefined, clock = new SharedServerClock()) {
    this.#requestsPerHour = requestsPerHour;
    this.clock = clock;
  }

  /** Asks for a turn of the export that the present activity works for. Null where the Temporal server took nothing. */
  async ask({ taskQueue, priority, unused, ...first }: TurnRequest, given?: RequestReport): Promise<AskedTurn | null> {
    const workflowId = activityInfo().workflowExecution?.workflowId ?? '';
    const askedAt = Math.round(first.askedAt ?? startServerClock()());
    const report = unused === undefined ? given : ({ turn: unused, outcome: 'unsent', at: askedAt } as const);
    const asked = { workflowId, priority, askedAt, requests: requestsOfTurn(this.#requestsPerHour) };
    const joined = await this.#tell((facts) =>
      this.#queue.join(ALL_EXPORTS, { ...asked, ...facts, ...(report && { report }) }, taskQueue),
    );
    if (!joined) return null;
    const { place, isAnswered } = joined;
    return { askedAt, place: hasPosition(place) ? place : null, isAnswered };
  }

  /** Tells what became of a chunk after which no turn is asked for; remembers what no queue must know. */
  async report(report: RequestReport | undefined): Promise<void> {
    if (!report) return;
    const { turn, outcome, at, requests = 1 } = report;
    const mustTell = turn !== null || outcome === 'throttled' || this.#requestsPerHour !== undefined;
    if (mustTell) await this.#tell((facts) => this.#queue.report(ALL_EXPORTS, { ...report, ...facts }));
    else this.#facts.accepted(NAME, at, requests);
  }

  /** Sends a message with all that is known of the budget; what was not told is told with the next message. */
  async #tell<T>(send: (facts: BudgetFacts) => Promise<T>): Promise<T> {
    const now = this.clock.start()();
    const accepted = this.#facts.takeAccepted(NAME, now);
    const result = await send({ perHour: this.#requestsPerHour ?? null, ...(accepted.length > 0 && { accepted }) });
    if (!result) this.#facts.giveBack(NAME, accepted, now);
    return result;
  }
}

function hasPosition(place: Queued): place is QueuePlace {
  return place.position !== undefined;
}

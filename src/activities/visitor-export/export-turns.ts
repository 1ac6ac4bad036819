/**
 * The turns of exports in the one queue of all of them: an activity asks for the next turn, and tells what became of
 * the last one. A message that the Temporal server does not take costs time and no page: the workflow asks again, and
 * the queue counts a turn that nobody reports as spent.
 */
import { activityInfo } from '@temporalio/activity';
import type { Queued } from '../../contract/write-outcome.js';
import {
  type BudgetFacts,
  type Priority,
  type QueueName,
  type QueuePlace,
  type RequestReport,
} from '../../contract.js';
import { startServerClock } from '../../temporal/activity-attempt.js';
import { QueueClient } from '../queue-client.js';
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

/** Speaks with the queue of all exports for the exports of this worker. */
export class TurnClient {
  readonly #requestsPerHour: number | undefined;
  readonly #queue = new QueueClient();

  constructor(requestsPerHour: number | undefined) {
    this.#requestsPerHour = requestsPerHour;
  }

  /** Asks for a turn of the export that the present activity works for. Null where the Temporal server took nothing. */
  async ask({ taskQueue, priority, unused, ...first }: TurnRequest, given?: RequestReport): Promise<AskedTurn | null> {
    const workflowId = activityInfo().workflowExecution?.workflowId ?? '';
    const askedAt = Math.round(first.askedAt ?? startServerClock()());
    const report = unused === undefined ? given : ({ turn: unused, outcome: 'unsent', at: askedAt } as const);
    const asked = { workflowId, priority, askedAt, requests: requestsOfTurn(this.#requestsPerHour) };
    const join = { ...asked, ...this.#facts, ...(report && { report }) };
    const joined = await this.#queue.join(ALL_EXPORTS, join, taskQueue);
    if (!joined) return null;
    const { place, isAnswered } = joined;
    return { askedAt, place: hasPosition(place) ? place : null, isAnswered };
  }

  /** Tells what became of a chunk after which no turn is asked for; without a turn a queue need not know it. */
  async report(report: RequestReport | undefined): Promise<void> {
    if (!report) return;
    const mustTell = report.turn !== null || report.outcome === 'throttled' || this.#requestsPerHour !== undefined;
    if (mustTell) await this.#queue.report(ALL_EXPORTS, { ...report, ...this.#facts });
  }

  get #facts(): BudgetFacts {
    return { perHour: this.#requestsPerHour ?? null };
  }
}

function hasPosition(place: Queued): place is QueuePlace {
  return place.position !== undefined;
}

/** The queue of one project's creates, as tests prepare and look at it. */
import type { Client } from '@temporalio/client';
import {
  queuePlaceQuery,
  reportRequestSignal,
  requestQueueId,
  requestQueueStateQuery,
  type BudgetFacts,
  type QueuePlace,
  type RequestQueueState,
  type RequestReport,
} from '../../src/contract.js';

const HOUR = 3_600_000;
// temporal.api.enums.v1.EventType
const TURN_SENT = 37;

export class ProjectQueue {
  readonly name: { operation: 'create' | 'message'; projectId: string };
  readonly #client: Client;
  readonly #taskQueue: string;

  /** @param taskQueue Where the queue runs, if this starts it. */
  constructor(client: Client, taskQueue: string, projectId: string, operation: 'create' | 'message' = 'create') {
    this.#client = client;
    this.#taskQueue = taskQueue;
    this.name = { operation, projectId };
  }

  get handle() {
    return this.#client.workflow.getHandle(requestQueueId(this.name));
  }

  /** Sends it a report, and starts it if it does not run. */
  async report(report: Partial<RequestReport> & BudgetFacts): Promise<void> {
    await this.#client.workflow.signalWithStart('requestQueue', {
      workflowId: requestQueueId(this.name),
      taskQueue: this.#taskQueue,
      args: [this.name],
      signal: reportRequestSignal,
      signalArgs: [{ turn: null, outcome: 'accepted', at: Date.now(), ...report }],
    });
  }

  /** Its budget is used up, and free again after this time, counted from `now`. */
  usedUp(perHour: number, freeInMs: number, now = Date.now()): Promise<void> {
    return this.report({ at: now - HOUR + freeInMs, requests: perHour, perHour });
  }

  state(): Promise<RequestQueueState> {
    return this.handle.query(requestQueueStateQuery);
  }

  /** Null if the workflow does not wait, or if there is no queue. */
  placeOf(workflowId: string): Promise<QueuePlace | null> {
    return this.handle.query(queuePlaceQuery, workflowId).catch(() => null);
  }

  /** Turns that its present run has sent, those that reached no job included. */
  async turnsSent(): Promise<number> {
    const { events } = await this.handle.fetchHistory();
    return (events ?? []).filter(({ eventType }) => eventType === TURN_SENT).length;
  }
}

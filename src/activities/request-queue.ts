/**
 * The messages of a queue of requests, as activities send them. They are short calls of the Temporal server; who can't
 * send one goes on without, because a queue forgives each message that it does not get.
 */
import { Context } from '@temporalio/activity';
import {
  joinQueueSignal,
  queuePlaceQuery,
  reportRequestSignal,
  REQUEST_QUEUE_WORKFLOW,
  requestQueueId,
  type BudgetFacts,
  type JoinRequest,
  type QueueName,
  type QueuePlace,
  type RequestReport,
} from '../contract/request-queue.js';

/** One call of the Temporal server, its own retries included. */
const CALL_TIMEOUT_MS = 5_000;

/** Asks for a turn; starts the queue on the task queue where there is none. */
export async function joinQueue(queue: QueueName, taskQueue: string, request: JoinRequest): Promise<void> {
  await withDeadline(({ workflow }) =>
    workflow.signalWithStart(REQUEST_QUEUE_WORKFLOW, {
      workflowId: requestQueueId(queue),
      taskQueue,
      args: [queue],
      signal: joinQueueSignal,
      signalArgs: [request],
    }),
  );
}

/** Tells a queue that exists how a request ended. */
export async function reportRequest(queue: QueueName, report: RequestReport & BudgetFacts): Promise<void> {
  await withDeadline(({ workflow }) => workflow.getHandle(requestQueueId(queue)).signal(reportRequestSignal, report));
}

/** The place of a workflow; null where it does not wait. Throws where the queue does not answer. */
export function queuePlace(queue: QueueName, workflowId: string): Promise<QueuePlace | null> {
  return withDeadline(({ workflow }) => workflow.getHandle(requestQueueId(queue)).query(queuePlaceQuery, workflowId));
}

function withDeadline<T>(call: (client: Context['client']) => Promise<T>): Promise<T> {
  const { client } = Context.current();
  return client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () => call(client));
}

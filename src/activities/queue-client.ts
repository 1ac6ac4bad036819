/**
 * Decides whether a queue of requests holds a write: joins the queue, reports how a turn ended, and asks whether there
 * is a queue. No call throws, and each is bounded: a queue that can't be reached holds no write up.
 */
import { Context } from '@temporalio/activity';
import {
  joinQueueSignal,
  queuePlaceQuery,
  REQUEST_QUEUE_WORKFLOW,
  reportRequestSignal,
  requestQueueId,
  type JoinRequest,
  type QueueName,
  type RequestReport,
} from '../contract.js';
import { queueSummary } from '../agent-job/web-ui-text.js';
import type { BudgetFacts } from '../contract/request-queue.js';
import type { Queued } from '../contract/write-outcome.js';
import { isOpen } from '../temporal/visibility.js';
import { queryAgain } from '../temporal/workflow-clients.js';

/** The limit to join and learn the place, even among thousands: the attempt of a write has 45 s in all. */
const JOIN_LIMIT_MS = 10_000;
/** The limit is short: the write waits for the answer. */
const ASK_LIMIT_MS = 2_000;
const REPORT_LIMIT_MS = 10_000;
/** Thousands of workflows ask one queue for turns: the queue's tasks go before theirs. */
const BEFORE_ALL = { priorityKey: 1 } as const;

interface JoinOptions {
  /** The sender has waited for a turn longer than it should. */
  isOverdue: boolean;
  /** The task queue of the queue's workflow; default: the activity's. */
  taskQueue?: string;
}

/** The queues, as one worker speaks with them. */
export class QueueClient {
  readonly #budgetOf: (name: QueueName) => BudgetFacts | Promise<BudgetFacts>;

  /** @param budgetOf The budget that is set, which goes with each message. */
  constructor(budgetOf: (name: QueueName) => BudgetFacts | Promise<BudgetFacts>) {
    this.#budgetOf = budgetOf;
  }

  /**
   * Asks for a turn, and starts the queue if none runs. Null if no queue holds what wants to be sent: the server does
   * not confirm the request, or no number is set and the queue does not answer a sender that is overdue.
   */
  async join(name: QueueName, request: JoinRequest, { isOverdue, taskQueue }: JoinOptions): Promise<Queued | null> {
    const { client, info } = Context.current();
    const budget = await this.#budgetOf(name);
    const start = {
      workflowId: requestQueueId(name),
      taskQueue: taskQueue ?? info.taskQueue,
      args: [name],
      signal: joinQueueSignal,
      signalArgs: [{ ...request, ...budget }] as [JoinRequest],
      priority: BEFORE_ALL,
      staticSummary: queueSummary(name),
    };
    const deadline = Date.now() + JOIN_LIMIT_MS;
    const joining = within(deadline, () => client.workflow.signalWithStart(REQUEST_QUEUE_WORKFLOW, start));
    const isConfirmed = await joining.then(
      () => true,
      () => false,
    );
    if (!isConfirmed) return null;
    // Null if the sender no longer waits: its turn is on the way.
    const asking = within(deadline, () => queryAgain(() => queueOf(name).query(queuePlaceQuery, request.workflowId)));
    const place = await asking.catch(() => undefined);
    const isSilent = place === undefined && !isLimited(budget);
    return isOverdue && isSilent ? null : { for: 'turn', ...place };
  }

  /** Reports how requests ended. A lost report does no harm: the queue counts the turn as used. */
  async report(name: QueueName, report: RequestReport): Promise<void> {
    const reporting = within(Date.now() + REPORT_LIMIT_MS, async () =>
      queueOf(name).signal(reportRequestSignal, { ...report, ...(await this.#budgetOf(name)) }),
    );
    await reporting.catch(() => {});
  }

  /** Whether a queue is there; null if that is not known. */
  async isRunning(name: QueueName): Promise<boolean | null> {
    try {
      const { status } = await within(Date.now() + ASK_LIMIT_MS, () => queueOf(name).describe());
      return isOpen(status.name);
    } catch (error) {
      return error instanceof Error && error.name === 'WorkflowNotFoundError' ? false : null;
    }
  }
}

/** Whether a number is set: then each request needs a turn. */
export function isLimited({ perHour, perDay }: BudgetFacts): boolean {
  return typeof perHour === 'number' || typeof perDay === 'number';
}

function queueOf(name: QueueName) {
  return Context.current().client.workflow.getHandle(requestQueueId(name));
}

async function within<T>(deadline: number, call: () => Promise<T>): Promise<T> {
  return Context.current().client.withDeadline(deadline, call);
}

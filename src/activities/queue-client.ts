/**
 * How an activity speaks with a queue of requests: it joins, tells how a turn ended, and asks whether there is a queue.
 * No call throws, and each is bounded: a queue that can't be reached holds no write up.
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
  type QueuePlace,
  type RequestReport,
} from '../contract.js';
import { queueSummary } from '../agent-job/title.js';
import type { WritesPerHour } from '../contract/request-queue.js';
import type { Queued } from '../contract/write-outcome.js';
import { isOpen } from '../temporal/open-workflows.js';
import { queryAgain } from '../temporal/workflow-clients.js';

/** To join and to be told the place, together, where thousands do: the attempt of a write has 45 s in all. */
const JOIN_LIMIT_MS = 10_000;
/** The write waits meanwhile. */
const ASK_LIMIT_MS = 2_000;
const REPORT_LIMIT_MS = 10_000;
/** A queue is asked by thousands and gives each a turn: its tasks go before theirs. */
const BEFORE_ALL = { priorityKey: 1 } as const;

type PerHour = WritesPerHour | null;

interface JoinOptions {
  /** It has waited for a turn longer than it should. */
  isOverdue: boolean;
  /** That of the workflows; default: the activity's. */
  taskQueue?: string;
}

export class QueueClient {
  readonly #perHourOf: (name: QueueName) => PerHour | Promise<PerHour>;

  /** @param perHourOf The budget that is set, which goes with each message. */
  constructor(perHourOf: (name: QueueName) => PerHour | Promise<PerHour>) {
    this.#perHourOf = perHourOf;
  }

  /**
   * Asks for a turn, of a queue that is started where there is none. Null where no queue holds what wants to be sent:
   * the server does not confirm the request, or no number is set and the queue does not answer what is overdue.
   */
  async join(name: QueueName, request: JoinRequest, { isOverdue, taskQueue }: JoinOptions): Promise<Queued | null> {
    const { client, info } = Context.current();
    const perHour = await this.#perHourOf(name);
    const deadline = Date.now() + JOIN_LIMIT_MS;
    try {
      await client.withDeadline(deadline, () =>
        client.workflow.signalWithStart(REQUEST_QUEUE_WORKFLOW, {
          workflowId: requestQueueId(name),
          taskQueue: taskQueue ?? info.taskQueue,
          args: [name],
          signal: joinQueueSignal,
          signalArgs: [{ ...request, perHour }],
          priority: BEFORE_ALL,
          staticSummary: queueSummary(name),
        }),
      );
    } catch {
      return null;
    }
    const place = await this.#placeOf(name, request.workflowId, deadline);
    const isSilent = place === undefined && typeof perHour !== 'number';
    return isOverdue && isSilent ? null : { for: 'turn', ...place };
  }

  /** Null where it waits no more: its turn is on the way. Undefined where the queue does not answer. */
  async #placeOf(name: QueueName, workflowId: string, deadline: number): Promise<QueuePlace | null | undefined> {
    const { client } = Context.current();
    try {
      const queue = client.workflow.getHandle(requestQueueId(name));
      return await client.withDeadline(deadline, () => queryAgain(() => queue.query(queuePlaceQuery, workflowId)));
    } catch {
      return undefined;
    }
  }

  /** Reports how requests ended. Without a queue there is nothing to report. */
  async report(name: QueueName, report: RequestReport): Promise<void> {
    const { client } = Context.current();
    try {
      const perHour = await this.#perHourOf(name);
      const queue = client.workflow.getHandle(requestQueueId(name));
      await client.withDeadline(Date.now() + REPORT_LIMIT_MS, () =>
        queue.signal(reportRequestSignal, { ...report, perHour }),
      );
    } catch {
      // The queue counts a turn that is not reported as used.
    }
  }

  /** Whether a queue is there; null where that is not known. */
  async isRunning(name: QueueName): Promise<boolean | null> {
    const { client } = Context.current();
    try {
      const queue = client.workflow.getHandle(requestQueueId(name));
      const { status } = await client.withDeadline(Date.now() + ASK_LIMIT_MS, () => queue.describe());
      return isOpen(status.name);
    } catch (error) {
      return error instanceof Error && error.name === 'WorkflowNotFoundError' ? false : null;
    }
  }
}

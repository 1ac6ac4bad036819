/**
 * Reports budgets that have changed to the queues of writes that run. A queue knows budgets by the messages of writes,
 * and those that wait send few.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Budgets } from '../activities/agent-job/budgets.js';
import {
  queueNameOf,
  reportRequestSignal,
  REQUEST_QUEUE_WORKFLOW,
  requestQueueId,
  type QueueName,
} from '../contract.js';
import { IS_OPEN } from '../temporal/open-workflows.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

const INTERVAL_MS = 5_000;
/** Queues that a worker reports to when it starts: it may have other settings than the one before it. */
const MAX_AT_START = 100;
const CALL_LIMIT_MS = 10_000;

interface BudgetNewsOptions {
  client: Client;
  taskQueue: string;
  budgets: Pick<Budgets, 'changes' | 'of'>;
  log: Pick<Logger, 'warn'>;
}

/** Reports to the queues that run at the start, then to those whose budget changes; returns what stops that. */
export function watchBudgets({ client, taskQueue, budgets, log }: BudgetNewsOptions): () => void {
  /** By workflow id. What could not be reported stays, and is tried again. */
  const due = new Map<string, QueueName>();
  let isStarted = false;
  const addRunning = async () => {
    for (const name of await runningQueues(client, taskQueue)) due.set(requestQueueId(name), name);
    isStarted = true;
  };
  const reportTo = async (id: string, { operation, projectId }: QueueName) => {
    if (projectId !== null) await report(client, id, await budgets.of(operation, projectId));
    due.delete(id);
  };
  const check = async (stopped: AbortSignal) => {
    // A list, or a queue, that Temporal does not answer for keeps no report from the others.
    const failures: unknown[] = [];
    const onFailure = (error: unknown) => void failures.push(error);
    for (const name of await budgets.changes()) due.set(requestQueueId(name), name);
    if (!isStarted) await addRunning().catch(onFailure);
    for (const [id, name] of due) {
      if (stopped.aborted) return;
      await reportTo(id, name).catch(onFailure);
    }
    if (failures.length > 0) throw failures[0] as Error;
  };
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not report the budgets to the queues of writes: tries again');
  // Workers that start together do not report together.
  return every(INTERVAL_MS, check, { firstMs: INTERVAL_MS * Math.random(), onError });
}

async function runningQueues(client: Client, taskQueue: string): Promise<QueueName[]> {
  const isOwn = `TaskQueue = '${taskQueue.replaceAll("'", "''")}'`;
  const query = `WorkflowType = '${REQUEST_QUEUE_WORKFLOW}' AND ${IS_OPEN} AND ${isOwn}`;
  const names: QueueName[] = [];
  for await (const { workflowId } of client.workflow.list({ query, pageSize: MAX_AT_START })) {
    const name = queueNameOf(workflowId);
    if (name) names.push(name);
    if (names.length === MAX_AT_START) break;
  }
  return names;
}

async function report(client: Client, queueId: string, perHour: Awaited<ReturnType<Budgets['of']>>): Promise<void> {
  const message = { turn: null, outcome: 'unsent', at: Date.now(), perHour } as const;
  const queue = client.workflow.getHandle(queueId);
  try {
    await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.signal(reportRequestSignal, message));
  } catch (error) {
    // No queue runs: no workflow waits.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

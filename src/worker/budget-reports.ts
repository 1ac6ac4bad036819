/**
 * Decides when a worker reports the budgets to the queues that run: when it starts, and when its file changes. A queue
 * knows budgets by the messages of writes, and writes that wait send few.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Budgets } from '../activities/agent-job/budgets.js';
import { queueNameOf, reportRequestSignal, REQUEST_QUEUE_WORKFLOW } from '../contract.js';
import type { BudgetFacts } from '../contract/request-queue.js';
import { IS_OPEN } from '../temporal/visibility.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

const INTERVAL_MS = 5_000;
/** The running queues are listed so often for each change: Temporal's list lags behind. */
const ROUNDS = 2;
const CALL_LIMIT_MS = 10_000;

interface BudgetReportsOptions {
  client: Client;
  taskQueue: string;
  budgets: Pick<Budgets, 'of' | 'ofProjects'>;
  log: Pick<Logger, 'warn'>;
}

/** Returns what stops the reports. */
export function watchBudgets({ client, taskQueue, budgets, log }: BudgetReportsOptions): () => void {
  /** What each running queue knows, as JSON, by workflow id. */
  let known = new Map<string, string>();
  let projects: object | null = null;
  let rounds = 0;
  const report = async (id: string, budget: BudgetFacts) => {
    if (known.get(id) !== JSON.stringify(budget)) await reportTo(client, id, budget);
  };
  const check = async (stopped: AbortSignal) => {
    const now = await budgets.ofProjects();
    if (now !== projects) [projects, rounds] = [now, ROUNDS];
    if (rounds === 0) return;
    // A queue for which Temporal does not answer keeps no report from the others.
    const failures: unknown[] = [];
    const reported = new Map<string, string>();
    for await (const { workflowId, operation, projectId } of runningQueues(client, taskQueue)) {
      if (stopped.aborted) return;
      const budget = await budgets.of(operation, projectId);
      await report(workflowId, budget).then(
        () => reported.set(workflowId, JSON.stringify(budget)),
        (error: unknown) => failures.push(error),
      );
    }
    known = reported;
    if (failures.length > 0) throw failures[0] as Error;
    rounds -= 1;
  };
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not report the budgets to the queues of writes: tries again');
  // Workers that start together do not report together.
  return every(INTERVAL_MS, check, { firstMs: INTERVAL_MS * Math.random(), onError });
}

/** The queues of writes that run on a task queue. */
export async function* runningQueues(client: Client, taskQueue: string) {
  const isOwn = `TaskQueue = '${taskQueue.replaceAll("'", "''")}'`;
  const query = `WorkflowType = '${REQUEST_QUEUE_WORKFLOW}' AND ${IS_OPEN} AND ${isOwn}`;
  for await (const { workflowId } of client.workflow.list({ query })) {
    const name = queueNameOf(workflowId);
    if (name && name.projectId !== null) yield { workflowId, ...name };
  }
}

async function reportTo(client: Client, queueId: string, budget: BudgetFacts): Promise<void> {
  const message = { turn: null, outcome: 'unsent', at: Date.now(), ...budget } as const;
  const queue = client.workflow.getHandle(queueId);
  try {
    await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.signal(reportRequestSignal, message));
  } catch (error) {
    // No queue runs: no workflow waits.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

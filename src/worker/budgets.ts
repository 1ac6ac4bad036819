/**
 * The budgets of the queues of writes that run. A worker reports them when it starts, and when its file changes: a
 * queue knows budgets by the messages of writes, and writes that wait send few. Metrics show what is used of them.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Budgets } from '../activities/agent-job/budgets.js';
import { queueNameOf, reportRequestSignal, REQUEST_QUEUE_WORKFLOW, requestQueueStateQuery } from '../contract.js';
import type { BudgetFacts } from '../contract/request-queue.js';
import { IS_OPEN, quoted } from '../temporal/visibility.js';
import { queryAgain } from '../temporal/workflow-clients.js';
import { every, WATCH_LIMIT_MS } from './every.js';
import type { Logger } from './logging.js';
import type { Meters } from './metrics.js';

const REPORT_EVERY_MS = 5_000;
/** The running queues are listed twice for each change: Temporal's list lags behind. */
const ROUNDS = 2;

interface WatchOptions {
  client: Client;
  taskQueue: string;
  log: Pick<Logger, 'warn'>;
}

/** Returns what stops the reports. */
export function watchBudgets(
  { client, taskQueue, log }: WatchOptions,
  budgets: Pick<Budgets, 'of' | 'ofProjects'>,
): () => void {
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
  return every(REPORT_EVERY_MS, check, { firstMs: REPORT_EVERY_MS * Math.random(), onError });
}

/** The queues of writes that run on a task queue. */
async function* runningQueues(client: Client, taskQueue: string) {
  const query = `WorkflowType = '${REQUEST_QUEUE_WORKFLOW}' AND ${IS_OPEN} AND TaskQueue = ${quoted(taskQueue)}`;
  for await (const { workflowId } of client.workflow.list({ query })) {
    const name = queueNameOf(workflowId);
    if (name && name.projectId !== null) yield { workflowId, ...name };
  }
}

async function reportTo(client: Client, queueId: string, budget: BudgetFacts): Promise<void> {
  const message = { turn: null, outcome: 'unsent', at: Date.now(), ...budget } as const;
  const queue = client.workflow.getHandle(queueId);
  try {
    await client.withDeadline(Date.now() + WATCH_LIMIT_MS, () => queue.signal(reportRequestSignal, message));
  } catch (error) {
    // No queue runs: no workflow waits.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

const RECORD_EVERY_MS = 60_000;
const READ_LIMIT_MS = 5_000;

type BudgetLabels = Readonly<Record<'project' | 'operation' | 'per', string>>;

/** Records once a minute, for the metrics, what is used of the budgets; returns what stops it. */
export function watchBudgetUse(
  { client, taskQueue, log }: WatchOptions,
  meters: Pick<Meters, 'budgetLimit' | 'budgetUsed'>,
): () => void {
  /** The series that have a number, by their labels as JSON. */
  let known = new Map<string, BudgetLabels>();
  const set = (labels: BudgetLabels, limit: number, used: number) => {
    meters.budgetLimit.set(limit, labels);
    meters.budgetUsed.set(used, labels);
  };
  const record = async (stopped: AbortSignal) => {
    const failures: unknown[] = [];
    const found = new Map<string, BudgetLabels>();
    for await (const { workflowId, operation, projectId: project } of runningQueues(client, taskQueue)) {
      if (stopped.aborted) return;
      const budgets = await budgetsOf(client, workflowId).catch((error: unknown) => void failures.push(error));
      for (const { per, limit, used } of budgets ?? []) {
        const labels = { project, operation, per };
        set(labels, limit, used);
        found.set(JSON.stringify(labels), labels);
      }
    }
    // The SDK's meter forgets no series: 0 of 0 raises no alert. A queue that does not answer keeps its last numbers.
    const gone = failures.length > 0 ? [] : [...known].filter(([key]) => !found.has(key));
    for (const [, labels] of gone) set(labels, 0, 0);
    known = failures.length > 0 ? new Map([...known, ...found]) : found;
    if (failures.length > 0) throw failures[0] as Error;
  };
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not read what is used of the budgets, for the metrics');
  return every(RECORD_EVERY_MS, record, { onError });
}

async function budgetsOf(client: Client, queueId: string) {
  const query = () => client.workflow.getHandle(queueId).query(requestQueueStateQuery, Date.now());
  const state = await client.withDeadline(Date.now() + READ_LIMIT_MS, () => queryAgain(query));
  const hour = { per: 'hour', limit: state.perHour, used: state.spentLastHour };
  const day = { per: 'day', limit: state.perDay, used: state.spentLastDay };
  return [hour, day].flatMap(({ limit, ...more }) => (limit === null ? [] : [{ limit, ...more }]));
}

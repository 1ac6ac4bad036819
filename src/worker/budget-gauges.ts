/** Records, for the metrics, the budgets of each project and what is used of them, as the queues that run report it. */
import type { Client } from '@temporalio/client';
import { requestQueueStateQuery } from '../contract.js';
import { queryAgain } from '../temporal/workflow-clients.js';
import { runningQueues } from './budget-reports.js';
import { every } from './every.js';
import type { Logger } from './logging.js';
import type { Meters } from './metrics.js';

const INTERVAL_MS = 60_000;
const CALL_LIMIT_MS = 5_000;

type Labels = Readonly<Record<'project' | 'operation' | 'per', string>>;

interface BudgetGaugesOptions {
  client: Client;
  taskQueue: string;
  meters: Pick<Meters, 'budgetLimit' | 'budgetUsed'>;
  log: Pick<Logger, 'warn'>;
}

/** Records them once a minute; returns what stops it. */
export function watchBudgetUse({ client, taskQueue, meters, log }: BudgetGaugesOptions): () => void {
  /** The series that have a number, by their labels as JSON. */
  let known = new Map<string, Labels>();
  const set = (labels: Labels, limit: number, used: number) => {
    meters.budgetLimit.set(limit, labels);
    meters.budgetUsed.set(used, labels);
  };
  const record = async (stopped: AbortSignal) => {
    const failures: unknown[] = [];
    const found = new Map<string, Labels>();
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
  return every(INTERVAL_MS, record, { onError });
}

/** The limits of a queue that have a number. */
async function budgetsOf(client: Client, queueId: string) {
  const query = () => client.workflow.getHandle(queueId).query(requestQueueStateQuery, Date.now());
  const state = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queryAgain(query));
  const hour = { per: 'hour', limit: state.perHour, used: state.spentLastHour };
  const day = { per: 'day', limit: state.perDay, used: state.spentLastDay };
  return [hour, day].flatMap(({ limit, ...more }) => (limit === null ? [] : [{ limit, ...more }]));
}

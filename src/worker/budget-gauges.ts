/** Records, for the metrics, the budgets of each project and what is used of them, as the queues that run report it. */
import type { Client } from '@temporalio/client';
import { type RequestQueueState, requestQueueStateQuery } from '../contract.js';
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
      const state = await stateOf(client, workflowId).catch((error: unknown) => void failures.push(error));
      for (const [per, limit, used] of state ? budgetsOf(state) : []) {
        if (limit === null) continue;
        const labels = { project, operation, per };
        set(labels, limit, used);
        found.set(JSON.stringify(labels), labels);
      }
    }
    // A queue that does not answer keeps its last numbers.
    if (failures.length > 0) known = new Map([...known, ...found]);
    if (failures.length > 0) throw failures[0] as Error;
    // The SDK's meter forgets no series: 0 of 0 raises no alert.
    for (const [key, labels] of known) if (!found.has(key)) set(labels, 0, 0);
    known = found;
  };
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not read what is used of the budgets, for the metrics');
  return every(INTERVAL_MS, record, { onError });
}

function budgetsOf({ perHour, perDay, spentLastHour, spentLastDay }: RequestQueueState) {
  return [['hour', perHour, spentLastHour] as const, ['day', perDay, spentLastDay] as const];
}

function stateOf(client: Client, queueId: string): Promise<RequestQueueState> {
  const query = () => client.workflow.getHandle(queueId).query(requestQueueStateQuery, Date.now());
  return client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queryAgain(query));
}

/** The runs of a recurring job as Temporal's visibility lists them, without asking a worker. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  agentJobWorkflowId,
  RECURRING_RUN_MEMO,
  recurringJobKey,
  type RecurringJobRun,
  type RecurringRunFate,
} from '../../contract.js';
import { checkWholeNumber } from '../../contract/input-checks.js';
import { listWorkflows, type CallOptions } from '../temporal-call.js';

/**
 * One run. Beside the fates that the workflow tells: `starting` until a worker takes it; and `failed`, `canceled`,
 * `terminated` or `timedOut` where it was ended in another way.
 */
export interface RecurringRunSummary extends Omit<RecurringJobRun, 'fate'> {
  fate: RecurringRunFate | 'starting' | 'failed' | 'canceled' | 'terminated' | 'timedOut';
  /** Of the run, not of its job. */
  runWorkflowId: string;
  startedAt: string;
  closedAt: string | null;
}

/** The fate of a run that has ended without one of its own. */
const CLOSED: Record<string, RecurringRunSummary['fate']> = {
  FAILED: 'failed',
  CANCELLED: 'canceled',
  TERMINATED: 'terminated',
  TIMED_OUT: 'timedOut',
};
const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);
/** They are held in memory. */
const MAX_LIMIT = 100_000;

/** What the runs of a recurring job are found by. */
interface Of {
  scheduleId: string;
  projectId: string;
  name: string;
}

/**
 * Lists the runs of a Schedule, also of one that is removed while Temporal keeps them. Most servers tell those that run
 * first, then the others by their end.
 */
export async function* listRuns(
  client: Client,
  of: Of,
  options: CallOptions,
): AsyncGenerator<RecurringRunSummary, void, undefined> {
  // Of the characters that a query treats, an encoded id has none.
  const query = `TemporalScheduledById = '${of.scheduleId}'`;
  for await (const run of listWorkflows(client, query, options)) yield toSummary(of, run);
}

/** The first of them. */
export async function lastRuns(
  client: Client,
  of: Of,
  limit: number,
  options: CallOptions,
): Promise<RecurringRunSummary[]> {
  const wanted = checkRunLimit(limit);
  const runs: RecurringRunSummary[] = [];
  if (wanted === 0) return runs;
  for await (const run of listRuns(client, of, options)) if (runs.push(run) === wanted) break;
  return runs;
}

/** Checks how many runs are asked for. */
function checkRunLimit(limit: number): number {
  return checkWholeNumber(limit, 'limit', [0, MAX_LIMIT]);
}

function toSummary({ projectId, name }: Of, run: WorkflowExecutionInfo): RecurringRunSummary {
  const { fate, outcome = null } = (run.memo?.[RECURRING_RUN_MEMO] ?? {}) as Partial<RecurringJobRun>;
  const scheduledAt = run.typedSearchAttributes.get(SCHEDULED_AT) ?? run.startTime;
  const key = recurringJobKey(name, scheduledAt);
  return {
    projectId,
    name,
    scheduledAt: scheduledAt.toISOString(),
    fate: CLOSED[run.status.name] ?? fate ?? 'starting',
    key,
    workflowId: agentJobWorkflowId(projectId, key),
    outcome,
    runWorkflowId: run.workflowId,
    startedAt: run.startTime.toISOString(),
    closedAt: run.closeTime?.toISOString() ?? null,
  };
}

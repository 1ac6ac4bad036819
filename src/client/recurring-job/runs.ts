/** The runs of a recurring job as Temporal's visibility lists them, without asking a worker. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  RECURRING_JOB_WORKFLOW,
  RECURRING_RUN_MEMO,
  recurringJobKey,
  type RecurringJobRun,
  type RecurringRunFate,
  type SkipReason,
} from '../../contract.js';
import { agentJobWorkflowId } from '../../contract.js';
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

const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);

/** What the runs of a recurring job are found by. */
export interface Of {
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
  for await (const run of listWorkflows(client, ofSchedule(of), options)) yield toSummary(of, run);
}

/** Lists the open runs that tell of no job yet. */
export async function* listJobless(client: Client, of: Of): AsyncGenerator<WorkflowExecutionInfo> {
  const query = `${ofSchedule(of)} AND WorkflowType = '${RECURRING_JOB_WORKFLOW}' AND ExecutionStatus = 'Running'`;
  for await (const run of listWorkflows(client, query, {})) if (toldBy(run).fate !== 'running') yield run;
}

/** So many more are read than asked for: one that ran for long is listed by its end, and begun before the others. */
const SORTED_TOGETHER = 100;
/** They are held in memory. */
const MAX_LIMIT = 100_000;

/** The runs that were started last, newest first. */
export async function lastRuns(
  client: Client,
  of: Of,
  limit: number,
  options: CallOptions,
): Promise<RecurringRunSummary[]> {
  const wanted = checkRunLimit(limit);
  const runs: RecurringRunSummary[] = [];
  for await (const run of listRuns(client, of, options)) {
    if (runs.push(run) >= wanted + SORTED_TOGETHER) break;
  }
  return runs.sort((a, b) => (orderOf(a) < orderOf(b) ? 1 : -1)).slice(0, wanted);
}

/** Of the characters that a query treats, an encoded id has none. */
function ofSchedule({ scheduleId }: Of): string {
  return `TemporalScheduledById = '${scheduleId}'`;
}

/** Checks how many runs are asked for. */
function checkRunLimit(limit: number): number {
  return checkWholeNumber(limit, 'limit', [0, MAX_LIMIT]);
}

function orderOf({ scheduledAt, startedAt }: RecurringRunSummary): string {
  return `${startedAt.slice(0, 19)} ${scheduledAt} ${startedAt}`;
}

function toSummary({ projectId, name }: Of, run: WorkflowExecutionInfo): RecurringRunSummary {
  const told = toldBy(run);
  const scheduledAt = run.typedSearchAttributes.get(SCHEDULED_AT) ?? run.startTime;
  const key = recurringJobKey(name, scheduledAt);
  return {
    projectId,
    name,
    scheduledAt: scheduledAt.toISOString(),
    fate: fateOf(run.status.name, told.fate),
    key,
    workflowId: agentJobWorkflowId(projectId, key),
    outcome: told.outcome ?? null,
    reason: (told.reason as SkipReason | undefined) ?? null,
    runWorkflowId: run.workflowId,
    startedAt: run.startTime.toISOString(),
    closedAt: run.closeTime?.toISOString() ?? null,
  };
}

function toldBy({ memo }: WorkflowExecutionInfo): Partial<RecurringJobRun> {
  return (memo?.[RECURRING_RUN_MEMO] ?? {}) as Partial<RecurringJobRun>;
}

const CLOSED: Record<string, RecurringRunSummary['fate']> = {
  FAILED: 'failed',
  CANCELLED: 'canceled',
  TERMINATED: 'terminated',
  TIMED_OUT: 'timedOut',
};

function fateOf(status: string, told: RecurringRunFate | undefined): RecurringRunSummary['fate'] {
  return CLOSED[status] ?? told ?? 'starting';
}

/** Jobs as Temporal's visibility lists them, without asking a worker. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, MEMO, SEARCH_ATTRIBUTE, type Phase, type ShownWaitingFor } from '../../contract.js';
import { listWorkflows, temporalCall, type CallOptions } from '../temporal-call.js';
import { readDescription, textOrNull } from './run-record.js';

/** Which jobs to list; what is left out does not restrict. */
export interface JobFilter {
  phase?: Phase | undefined;
  projectId?: string | undefined;
  /** The label of jobs that were started together. */
  batch?: string | undefined;
  /** Only workflows that have not closed. */
  isRunning?: boolean | undefined;
  /** Only running jobs that wait for this. */
  waitingFor?: ShownWaitingFor | undefined;
}

/** One job as Temporal lists it; may lag a moment behind the workflow. */
export interface JobSummary {
  workflowId: string;
  projectId: string | null;
  phase: Phase | null;
  batch: string | null;
  /** The upstream's own status, as last read. */
  status: string | null;
  /** What a running job waits for, where that may last; null where its namespace or worker is too old to tell. */
  waitingFor: ShownWaitingFor | null;
  jobId: string | null;
  prLink: string | null;
  /** Temporal's status of the workflow, such as `RUNNING`. */
  workflowStatus: string;
  startedAt: string;
  closedAt: string | null;
}

/**
 * Lists jobs, newest first as far as the server sorts them; a chain of runs shows its newest only. `condition` is one
 * more condition in the server's query language.
 */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  options: CallOptions = {},
  condition?: string,
): AsyncGenerator<JobSummary, void, undefined> {
  const query = [toQuery(filter), ...(condition === undefined ? [] : [condition])].join(' AND ');
  for await (const run of listWorkflows(client, query, options)) {
    const job = toSummary(run);
    if (isAsked(job.projectId, filter.projectId) && isAsked(job.batch, filter.batch)) yield job;
  }
}

function isAsked(value: string | null, asked: string | undefined): boolean {
  return asked === undefined || value === asked;
}

function toQuery({ phase, projectId, batch, isRunning, waitingFor }: JobFilter): string {
  const conditions = [`WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)}`];
  conditions.push(isRunning || waitingFor ? `ExecutionStatus = 'Running'` : `ExecutionStatus != 'ContinuedAsNew'`);
  if (phase !== undefined) conditions.push(`${SEARCH_ATTRIBUTE.phase} = ${quoted(phase)}`);
  if (waitingFor !== undefined) conditions.push(waitsFor(waitingFor));
  if (projectId !== undefined) conditions.push(equals(SEARCH_ATTRIBUTE.project, projectId));
  if (batch !== undefined) conditions.push(equals(SEARCH_ATTRIBUTE.batch, batch));
  return conditions.join(' AND ');
}

/**
 * No server was found to take `"` and `\` quoted, nor `'` at either end. What precedes them is asked for, and the rest
 * is compared as jobs are read.
 */
export function equals(attribute: string, value: string): string {
  const [start = ''] = /^(?!')[^"\\]*[^"\\']/.exec(value) ?? [];
  if (start === value) return `${attribute} = ${quoted(value)}`;
  return start === '' ? `${attribute} IS NOT NULL` : `${attribute} STARTS_WITH ${quoted(start)}`;
}

/** Every release tells by the phase that a person must decide. */
function waitsFor(what: ShownWaitingFor): string {
  const needsAttention: Phase = 'needsAttention';
  return what === 'person'
    ? `${SEARCH_ATTRIBUTE.phase} = ${quoted(needsAttention)}`
    : `${SEARCH_ATTRIBUTE.waitingFor} = ${quoted(what)}`;
}

export function quoted(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
const BATCH = defineSearchAttributeKey(SEARCH_ATTRIBUTE.batch, SearchAttributeType.KEYWORD);
const STATUS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.status, SearchAttributeType.KEYWORD);
const WAITING_FOR = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, SearchAttributeType.KEYWORD);

function toSummary(run: Omit<WorkflowExecutionInfo, 'raw'>): JobSummary {
  const attributes = run.typedSearchAttributes;
  return {
    workflowId: run.workflowId,
    projectId: attributes.get(PROJECT) ?? null,
    phase: (attributes.get(PHASE) as Phase | undefined) ?? null,
    batch: attributes.get(BATCH) ?? null,
    status: attributes.get(STATUS) ?? null,
    waitingFor: waitingForOf(run),
    jobId: textOrNull(run.memo?.[MEMO.jobId]),
    prLink: textOrNull(run.memo?.[MEMO.prLink]),
    workflowStatus: run.status.name,
    startedAt: run.startTime.toISOString(),
    closedAt: run.closeTime?.toISOString() ?? null,
  };
}

/** A job that was terminated keeps what it waited for. */
function waitingForOf({
  typedSearchAttributes: attributes,
  status,
}: Omit<WorkflowExecutionInfo, 'raw'>): ShownWaitingFor | null {
  if (status.name !== 'RUNNING') return null;
  if (attributes.get(PHASE) === 'needsAttention') return 'person';
  return (attributes.get(WAITING_FOR) as ShownWaitingFor | undefined) ?? null;
}

const SCHEDULED = 1; // temporal.api.enums.v1.PendingWorkflowTaskState

/** A look at a job. */
export interface JobLook {
  /** As `listJobs` would show its newest run, without the lag of a list. */
  summary: JobSummary;
  runId: string;
  /** A workflow task waits that no worker has taken yet. */
  isWaitingForWorker: boolean;
}

/** Looks at a job; throws JobNotFoundError. */
export function lookAtJob(client: Client, workflowId: string, options: CallOptions = {}): Promise<JobLook> {
  return temporalCall(client, options, async () => {
    const run = await readDescription(client, workflowId);
    const isWaitingForWorker = run.raw.pendingWorkflowTask?.state === SCHEDULED;
    return { summary: toSummary(run), runId: run.runId, isWaitingForWorker };
  });
}

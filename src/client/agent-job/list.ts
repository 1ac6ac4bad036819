import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, MEMO, SEARCH_ATTRIBUTE, type Phase, type InDoubtWrite } from '../../contract.js';
import { JobHandle } from './handle.js';
import { textOrNull } from './run-record.js';
import { temporalCall, type CallOptions } from '../temporal-call.js';
import { lenientWorkflowClient } from '../../temporal/lenient-workflow-client.js';

/** Queries in flight at once: enough for hundreds after an outage, gentle to one worker. */
const CONCURRENT_QUERIES = 10;

export interface JobFilter {
  phase?: Phase | undefined;
  projectId?: string | undefined;
  /** Only workflows that have not closed. */
  isRunning?: boolean | undefined;
}

/** One job as Temporal lists it; may lag a moment behind the workflow. */
export interface JobSummary {
  workflowId: string;
  projectId: string | null;
  phase: Phase | null;
  /** The upstream's own status, as last read. */
  status: string | null;
  jobId: string | null;
  prLink: string | null;
  /** Temporal's status of the workflow, such as `RUNNING`. */
  workflowStatus: string;
  startedAt: string;
  closedAt: string | null;
}

/** A job that waits for a person; `unknown` is null and `problem` says why where its state could not be read. */
export interface AttentionItem {
  workflowId: string;
  projectId: string | null;
  jobId: string | null;
  unknown: InDoubtWrite | null;
  problem?: string;
}

/** Lists jobs, newest first as far as the server sorts them; a chain of runs shows its newest only. `condition` is part of a query. */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  options: CallOptions = {},
  condition?: string,
): AsyncGenerator<JobSummary, void, undefined> {
  const query = [toQuery(filter), ...(condition === undefined ? [] : [condition])].join(' AND ');
  const runs = lenientWorkflowClient(client).list({ query })[Symbol.asyncIterator]();
  for (;;) {
    const next = await temporalCall(client, options, () => runs.next());
    if (next.done) return;
    const job = toSummary(next.value);
    if (filter.projectId === undefined || job.projectId === filter.projectId) yield job;
  }
}

/** Reads of every running job in `needsAttention` what is unknown. */
export async function* listAttention(
  client: Client,
  options: CallOptions = {},
): AsyncGenerator<AttentionItem, void, undefined> {
  let batch: JobSummary[] = [];
  for await (const job of listJobs(client, { phase: 'needsAttention', isRunning: true }, options)) {
    batch.push(job);
    if (batch.length < CONCURRENT_QUERIES) continue;
    yield* await readInDoubtWrites(client, batch, options);
    batch = [];
  }
  yield* await readInDoubtWrites(client, batch, options);
}

async function readInDoubtWrites(client: Client, jobs: JobSummary[], options: CallOptions): Promise<AttentionItem[]> {
  const items = await Promise.all(jobs.map((job) => readInDoubtWrite(client, job, options)));
  return items.filter((item) => item.unknown !== null || item.problem !== undefined);
}

async function readInDoubtWrite(client: Client, job: JobSummary, options: CallOptions): Promise<AttentionItem> {
  const { workflowId, projectId, jobId } = job;
  try {
    const state = await new JobHandle(client, workflowId).state(options);
    return { workflowId, projectId: state.projectId, jobId: state.jobId, unknown: state.unknown };
  } catch (error) {
    options.signal?.throwIfAborted();
    return { workflowId, projectId, jobId, unknown: null, problem: (error as Error).message };
  }
}

function toQuery({ phase, projectId, isRunning }: JobFilter): string {
  const conditions = [`WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)}`];
  conditions.push(isRunning ? `ExecutionStatus = 'Running'` : `ExecutionStatus != 'ContinuedAsNew'`);
  if (phase !== undefined) conditions.push(`${SEARCH_ATTRIBUTE.phase} = ${quoted(phase)}`);
  // No way to quote these was found that a server takes; such a project's jobs are picked out here.
  const isQuotable = projectId !== undefined && !/["\\]/.test(projectId);
  if (isQuotable) conditions.push(`${SEARCH_ATTRIBUTE.project} = ${quoted(projectId)}`);
  return conditions.join(' AND ');
}

function quoted(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
const STATUS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.status, SearchAttributeType.KEYWORD);

function toSummary(run: WorkflowExecutionInfo): JobSummary {
  const attributes = run.typedSearchAttributes;
  return {
    workflowId: run.workflowId,
    projectId: attributes.get(PROJECT) ?? null,
    phase: (attributes.get(PHASE) as Phase | undefined) ?? null,
    status: attributes.get(STATUS) ?? null,
    jobId: textOrNull(run.memo?.[MEMO.jobId]),
    prLink: textOrNull(run.memo?.[MEMO.prLink]),
    workflowStatus: run.status.name,
    startedAt: run.startTime.toISOString(),
    closedAt: run.closeTime?.toISOString() ?? null,
  };
}

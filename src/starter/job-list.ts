import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType, WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, MEMO, SEARCH_ATTRIBUTE, type Phase, type UnknownWrite } from '../contract.js';
import { JobHandle } from './job-handle.js';
import { textOrNull } from './run-record.js';
import { temporalCall, type CallOptions } from './temporal-call.js';
import { tolerantWorkflows } from './tolerant-workflows.js';

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
  unknown: UnknownWrite | null;
  problem?: string;
}

/** Lists jobs, newest first as far as the server sorts them; a chain of runs shows its newest only. */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  options: CallOptions = {},
): AsyncGenerator<JobSummary, void, undefined> {
  const runs = tolerantWorkflows(client)
    .list({ query: toQuery(filter) })
    [Symbol.asyncIterator]();
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
    yield* await readUnknowns(client, batch, options);
    batch = [];
  }
  yield* await readUnknowns(client, batch, options);
}

/** A job whose workflow task fails again and again: a bug, or a release that does not fit; it stands still until a worker can run it. */
export interface StuckJob {
  workflowId: string;
  projectId: string | null;
  phase: Phase | null;
  /** How often the task was tried. */
  attempts: number;
  /** When the present attempts began. */
  since: string | null;
}

/** A task is repeated once where a worker died with it; more often only where it fails. */
const STUCK_ATTEMPTS = 3;
/** The server itself marks such jobs where it can; else so many of the running ones are looked at, newest first. */
const MOST_DESCRIBED = 200;

/** Running jobs whose workflow task keeps failing, of the first MOST_DESCRIBED that Temporal lists. */
export async function* listStuck(client: Client, options: CallOptions = {}): AsyncGenerator<StuckJob, void, undefined> {
  let batch: JobSummary[] = [];
  let described = 0;
  for await (const job of listJobs(client, { isRunning: true }, options)) {
    batch.push(job);
    described += 1;
    if (batch.length < CONCURRENT_QUERIES && described < MOST_DESCRIBED) continue;
    yield* await describeStuck(client, batch, options);
    batch = [];
    if (described >= MOST_DESCRIBED) return;
  }
  yield* await describeStuck(client, batch, options);
}

async function describeStuck(client: Client, jobs: JobSummary[], options: CallOptions): Promise<StuckJob[]> {
  const found = await Promise.all(jobs.map((job) => stuckOrNull(client, job, options)));
  return found.filter((job) => job !== null);
}

/** Null where the workflow task is well, or the job has ended meanwhile. */
async function stuckOrNull(
  client: Client,
  { workflowId, projectId, phase }: JobSummary,
  options: CallOptions,
): Promise<StuckJob | null> {
  const handle = client.workflow.getHandle(workflowId);
  const description = await temporalCall(client, options, () => handle.describe()).catch((error: unknown) => {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  });
  const task = description?.raw.pendingWorkflowTask;
  const attempts = task?.attempt ?? 0;
  if (!task || attempts < STUCK_ATTEMPTS) return null;
  const seconds = Number(task.originalScheduledTime?.seconds ?? 0);
  const since = seconds === 0 ? null : new Date(seconds * 1_000).toISOString();
  return { workflowId, projectId, phase, attempts, since };
}

async function readUnknowns(client: Client, jobs: JobSummary[], options: CallOptions): Promise<AttentionItem[]> {
  const items = await Promise.all(jobs.map((job) => readUnknown(client, job, options)));
  return items.filter((item) => item.unknown !== null || item.problem !== undefined);
}

async function readUnknown(client: Client, job: JobSummary, options: CallOptions): Promise<AttentionItem> {
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

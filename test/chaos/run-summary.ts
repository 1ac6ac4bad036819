/** Facts of one run of a job, closed or running, from its history alone. */
import { setTimeout as pause } from 'node:timers/promises';
import { QueryNotRegisteredError, type Client } from '@temporalio/client';
import {
  AGENT_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  type AgentJobResult,
  type FollowUpStatus,
  type JobState,
  type Waiting,
} from '../../src/contract.js';
import { bugsIn, type History } from './task-failures.js';

export interface RunSummary {
  workflowId: string;
  runId: string;
  startedAt: number;
  /** How the run closed, as its last event says, such as `COMPLETED`; else `RUNNING`. */
  status: string;
  /** The result's outcome, or the failure's type. */
  ending: string | null;
  jobId: string | null;
  /** The pull request in its result. */
  prLink: string | null;
  followUps: FollowUpStatus[];
  /** Reasons of the writes in doubt of this run. */
  inDoubt: string[];
  /** How often it went into `needsAttention`, as its search attribute shows. */
  shown: number;
  /** The write that was still unknown when the run ended without a result. */
  inDoubtAtEnd: string | null;
  /** What a run that has not closed waits for. */
  waiting: Waiting | null;
  /** Workflow tasks that failed because of a bug, by cause. */
  bugs: string[];
}

const CLOSED = {
  workflowExecutionCompletedEventAttributes: 'COMPLETED',
  workflowExecutionFailedEventAttributes: 'FAILED',
  workflowExecutionCanceledEventAttributes: 'CANCELLED',
  workflowExecutionContinuedAsNewEventAttributes: 'CONTINUED_AS_NEW',
  workflowExecutionTerminatedEventAttributes: 'TERMINATED',
  workflowExecutionTimedOutEventAttributes: 'TIMED_OUT',
};

type Event = NonNullable<History['events']>[number];

async function summarizeRun(
  client: Client,
  run: { workflowId: string; runId: string; startedAt: number },
): Promise<RunSummary> {
  const { workflowId, runId } = run;
  const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const summary = { ...emptySummary(run), bugs: await bugsIn(workflowId, history) };
  const writes = new Set<string>();
  for (const event of history.events ?? []) {
    readActivity(summary, writes, event);
    readSigns(summary, event);
    readEnding(summary, event);
  }
  if (['CANCELLED', 'FAILED', 'RUNNING'].includes(summary.status)) await readState(client, summary);
  return summary;
}

function emptySummary(run: ListedRun): RunSummary {
  return {
    ...run,
    status: 'RUNNING',
    ending: null,
    jobId: null,
    prLink: null,
    followUps: [],
    inDoubt: [],
    shown: 0,
    inDoubtAtEnd: null,
    waiting: null,
    bugs: [],
  };
}

function readActivity(summary: RunSummary, writes: Set<string>, event: Event): void {
  const scheduled = event.activityTaskScheduledEventAttributes;
  if (scheduled && ['createJob', 'sendMessage'].includes(scheduled.activityType?.name ?? '')) {
    writes.add(String(event.eventId));
  }
  const completed = event.activityTaskCompletedEventAttributes;
  if (completed && writes.has(String(completed.scheduledEventId))) {
    const result = decode(completed.result) as { kind: string; reason: string };
    if (result.kind === 'inDoubt') summary.inDoubt.push(result.reason);
  }
  const failed = event.activityTaskTimedOutEventAttributes ?? event.activityTaskFailedEventAttributes;
  if (failed && writes.has(String(failed.scheduledEventId))) {
    summary.inDoubt.push(`the activity failed: ${failed.failure?.message ?? ''}`);
  }
}

function readSigns(summary: RunSummary, event: Event): void {
  const fields = event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes?.indexedFields;
  const phase = fields?.['AgentJobPhase'];
  if (phase && String(decode({ payloads: [phase] })).includes('needsAttention')) summary.shown += 1;
  const jobId = event.workflowPropertiesModifiedEventAttributes?.upsertedMemo?.fields?.['jobId'];
  if (jobId) summary.jobId = (decode({ payloads: [jobId] }) as string | null) ?? summary.jobId;
}

/** The list lags behind a server that was killed; the history does not. */
function readStatus(summary: RunSummary, event: Event): void {
  for (const [attributes, status] of Object.entries(CLOSED))
    if (event[attributes as keyof Event]) summary.status = status;
}

function readEnding(summary: RunSummary, event: Event): void {
  readStatus(summary, event);
  const completed = event.workflowExecutionCompletedEventAttributes;
  if (completed) {
    const result = decode(completed.result) as AgentJobResult;
    summary.ending = result.outcome;
    summary.jobId = result.jobId;
    summary.prLink = result.prLink;
    summary.followUps = result.followUps;
  }
  const failure = event.workflowExecutionFailedEventAttributes?.failure;
  if (failure) summary.ending = failure.applicationFailureInfo?.type ?? failure.message ?? 'failed';
  if (event.workflowExecutionCanceledEventAttributes) summary.ending = 'Canceled';
}

/** Runs that end without a result still answer the query. One that has not ended may be unable to. */
async function readState(client: Client, summary: RunSummary): Promise<void> {
  const handle = client.workflow.getHandle(summary.workflowId, summary.runId);
  const query = client.withDeadline(Date.now() + 30_000, () => handle.query<JobState>('jobState'));
  const state = await query.catch((error: unknown) => {
    // The worker answers by replaying the run: one that it can't replay is a failed task, only later.
    const isRunning = summary.status === 'RUNNING' && error instanceof Error;
    if (!isRunning && !(error instanceof QueryNotRegisteredError)) throw error;
    summary.bugs.push(`query of the ${isRunning ? 'running' : 'closed'} run: ${error.message}`.slice(0, 200));
    return null;
  });
  if (state === null) return;
  summary.jobId = state.jobId;
  summary.followUps = state.followUps;
  if (summary.status === 'RUNNING') summary.waiting = state.waiting;
  else summary.inDoubtAtEnd = state.unknown?.reason ?? null;
}

interface PayloadList {
  payloads?: readonly { data?: Uint8Array | null }[] | null;
}

function decode(list: PayloadList | null | undefined): unknown {
  const data = list?.payloads?.[0]?.data;
  return data ? (JSON.parse(Buffer.from(data).toString('utf8')) as unknown) : null;
}

const LISTED_WITHIN_MS = 60_000;
const READERS = 8;

/** The summaries of all runs of jobs on a task queue, in no order. */
export async function summarizeRuns(client: Client, taskQueue: string): Promise<RunSummary[]> {
  await untilListed(client, taskQueue);
  return summarizeAll(client, runsOf(AGENT_JOB_WORKFLOW, taskQueue), summarizeRun);
}

/** One run of a queue of requests: some go on when all jobs have ended. */
export interface QueueRunSummary {
  workflowId: string;
  runId: string;
  status: string;
  /** Workflow tasks that failed because of a bug, by cause. */
  bugs: string[];
}

/** The same of the queues of requests. */
export function summarizeQueues(client: Client, taskQueue: string): Promise<QueueRunSummary[]> {
  return summarizeAll(client, runsOf(REQUEST_QUEUE_WORKFLOW, taskQueue), async (_, run) => {
    const { workflowId, runId } = run;
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    const summary = emptySummary(run);
    for (const event of history.events ?? []) readStatus(summary, event);
    return { workflowId, runId, status: summary.status, bugs: await bugsIn(workflowId, history) };
  });
}

type ListedRun = Parameters<typeof summarizeRun>[1];

async function summarizeAll<Summary>(
  client: Client,
  query: string,
  summarize: (client: Client, run: ListedRun) => Promise<Summary>,
): Promise<Summary[]> {
  const runs: ListedRun[] = [];
  for await (const { workflowId, runId, startTime } of client.workflow.list({ query })) {
    runs.push({ workflowId, runId, startedAt: startTime.getTime() });
  }
  const summaries: Summary[] = [];
  const next = runs.values();
  const reader = async () => {
    for (const run of next) summaries.push(await summarize(client, run));
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  return summaries;
}

function runsOf(workflow: string, taskQueue: string): string {
  return `TaskQueue = '${taskQueue}' AND WorkflowType = '${workflow}'`;
}

/** The list of a busy server lags behind: a run that it still shows as open may have ended, or begun another. */
async function untilListed(client: Client, taskQueue: string): Promise<void> {
  const query = `${runsOf(AGENT_JOB_WORKFLOW, taskQueue)} AND ExecutionStatus = 'Running'`;
  for (const until = Date.now() + LISTED_WITHIN_MS; Date.now() < until; await pause(1_000)) {
    if ((await client.workflow.count(query)).count === 0) return;
  }
}

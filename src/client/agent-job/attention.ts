/**
 * What an operator must see to: jobs that wait for a person to resolve a write in doubt; workflows without progress,
 * because they are paused, their task fails, or no worker of their version runs; projects whose key is refused; exports
 * that wait for an hour; runs that ended while the upstream was still at work; and webhooks that were given up.
 */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey } from '@temporalio/common';
import { keyOf } from '../../agent-job/start-options.js';
import { AGENT_JOB_WORKFLOW, SEARCH_ATTRIBUTE, VISITOR_EXPORT_WORKFLOW } from '../../contract.js';
import type { Decision, InDoubtWrite } from '../../contract.js';
import { DAY_MS, HOUR_MS } from '../../contract/shared.js';
import { WEBHOOK_DELIVERY_WORKFLOW } from '../../contract/webhooks.js';
import { hasGrpcStatus } from '../../temporal/grpc.js';
import { toMs } from '../../temporal/heartbeats.js';
import { IS_OPEN, IS_OURS, pauseOf, quoted } from '../../temporal/visibility.js';
import { concurrently } from '../concurrently.js';
import { livePollers } from '../pollers.js';
import type { CallOptions, ClientContext } from '../settings.js';
import { CALL_TIMEOUT_MS, listWorkflows, temporalCall } from '../temporal-call.js';
import { jobUrl } from '../web-ui.js';
import { readState } from './call-job.js';
import { type JobSummary, listJobs, toSummary } from './list.js';
import { nullIfGone, readDescription } from './run-record.js';

/** A job that waits for a person. If its state could not be read, `unknown` is null and `problem` says why. */
export interface AttentionItem {
  workflowId: string;
  /** As in a list of jobs. */
  title: string | null;
  /** The page of the run in the web UI that shows the doubt; null if the web UI is not known. */
  url: string | null;
  projectId: string | null;
  jobId: string | null;
  /** The write in doubt, which `resolve` decides. */
  unknown: InDoubtWrite | null;
  /** What people decided about this job's writes before. */
  decisions: Decision[];
  problem?: string;
}

/** Lists every running job in `needsAttention`, with its write in doubt. */
export async function* listAttention(
  context: ClientContext,
  options: CallOptions,
): AsyncGenerator<AttentionItem, void, undefined> {
  const listed = listJobs(context.client, { phase: 'needsAttention', isRunning: true }, options);
  for await (const item of concurrently(listed, {}, (job) => readInDoubtWrite(context, job, options))) {
    // A job whose write was resolved after the list was made has neither.
    if (item.unknown !== null || item.problem !== undefined) yield item;
  }
}

async function readInDoubtWrite(
  { client, webUi }: ClientContext,
  job: JobSummary,
  options: CallOptions,
): Promise<AttentionItem> {
  const { workflowId, title, projectId, jobId } = job;
  const known = { workflowId, title, url: webUi && jobUrl(webUi, job), projectId, jobId };
  try {
    // The default limit is longer: with it, jobs whose workers are gone would hold up all others.
    const limits = { ...options, timeoutMs: options.timeoutMs ?? CALL_TIMEOUT_MS };
    const state = await readState(client, workflowId, limits);
    const { unknown, decisions } = state;
    return { ...known, projectId: state.projectId, jobId: state.jobId, unknown, decisions };
  } catch (error) {
    options.signal?.throwIfAborted();
    return { ...known, unknown: null, decisions: [], problem: (error as Error).message };
  }
}

const REPORTED_PROBLEMS = defineSearchAttributeKey('TemporalReportedProblems', 'KEYWORD_LIST');
const VERSION = defineSearchAttributeKey('TemporalWorkerDeploymentVersion', 'KEYWORD');
const PAUSED_JOBS = `${IS_OURS} AND ExecutionStatus = 'Paused'`;
const JOBS_WITH_PROBLEMS = `${IS_OURS} AND ${IS_OPEN} AND ${REPORTED_PROBLEMS.name} IS NOT NULL`;
const PINNED = `${IS_OURS} AND ${IS_OPEN} AND TemporalWorkflowVersioningBehavior = 'Pinned'`;

/** An open workflow that makes no progress: a job, or one that jobs may wait for. */
export interface StuckJob {
  workflowId: string;
  /** `agentJob`, `requestQueue`, `visitorExport`, or one of webhooks. */
  workflowType: string;
  /** Null if the list does not show the project with the workflow. */
  projectId: string | null;
  /** Temporal's words for a workflow task that keeps failing; empty for another reason. */
  problems: string[];
  /** The version without workers to which the workflow is pinned, as `DEPLOYMENT:BUILD_ID`; null for another reason. */
  pinnedTo: string | null;
  /** The pause in words: since when, by whom and why; null for another reason. */
  paused: string | null;
}

/** Lists the workflows that are paused, then those with a reported problem, then those pinned to a lost version. */
export async function* listStuck(client: Client, options: CallOptions = {}): AsyncGenerator<StuckJob, void, undefined> {
  const listed = new Set<string>();
  for await (const run of listKnown(client, PAUSED_JOBS, options)) {
    const read = () => readDescription(client, run.workflowId).catch(nullIfGone);
    const description = await temporalCall(client, options, read);
    const pause = description && pauseOf(description);
    if (!pause) continue;
    listed.add(run.workflowId);
    yield { ...stuckJob(run, null), problems: [], paused: pause };
  }
  for await (const run of listKnown(client, JOBS_WITH_PROBLEMS, options)) {
    if (listed.has(run.workflowId)) continue;
    listed.add(run.workflowId);
    yield stuckJob(run, null);
  }
  for await (const run of listPinnedToLost(client, options)) {
    if (!listed.has(run.workflowId)) yield stuckJob(run, run.typedSearchAttributes.get(VERSION) ?? null);
  }
}

function stuckJob(run: WorkflowExecutionInfo, pinnedTo: string | null): StuckJob {
  const { workflowId, type: workflowType, typedSearchAttributes: attributes } = run;
  const problems = pinnedTo === null ? (attributes.get(REPORTED_PROBLEMS) ?? []) : [];
  return {
    workflowId,
    workflowType,
    projectId: attributes.get(keyOf('project')) ?? null,
    problems,
    pinnedTo,
    paused: null,
  };
}

/** Lists the runs of each version that no worker polls, with one request for each version. */
async function* listPinnedToLost(client: Client, options: CallOptions): AsyncGenerator<WorkflowExecutionInfo> {
  for (let query = PINNED; ;) {
    const { value: run } = await listKnown(client, query, options).next();
    const version = run?.typedSearchAttributes.get(VERSION);
    if (!run || version === undefined) return;
    const [name, taskQueue] = [quoted(version), quoted(run.taskQueue)];
    const pollers = await temporalCall(client, options, () => livePollers(client, run.taskQueue, 'workflow'));
    if (!pollers.some((poller) => poller.version === version)) {
      yield* listKnown(client, `${PINNED} AND ${VERSION.name} = ${name} AND TaskQueue = ${taskQueue}`, options);
    }
    query += ` AND (${VERSION.name} != ${name} OR TaskQueue != ${taskQueue})`;
  }
}

/** Lists nothing on an older server, which does not know the attributes of the query. */
async function* listKnown(
  client: Client,
  query: string,
  options: CallOptions,
): AsyncGenerator<WorkflowExecutionInfo, void> {
  try {
    yield* listWorkflows(client, query, options);
  } catch (error) {
    if (!hasGrpcStatus(error, 'invalidArgument')) throw error;
  }
}

/** The row of a run that ended while the upstream was still at work on its job. */
export type EarlyEnd = Pick<JobSummary, 'workflowId' | 'runId' | 'projectId' | 'jobId' | 'outcome' | 'endedAt'>;

const ENDED_EARLY =
  `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ${SEARCH_ATTRIBUTE.outcome} IN ('timedOut', 'Canceled') AND ` +
  `${SEARCH_ATTRIBUTE.status} = 'active'`;

/** Lists the runs of the last day that ended so, unless another run has gone on with the job. */
export async function* listEarlyEnds(client: Client, options: CallOptions = {}): AsyncGenerator<EarlyEnd> {
  const query = `${ENDED_EARLY} AND CloseTime > '${new Date(Date.now() - DAY_MS).toISOString()}'`;
  for await (const run of listNewest(client, query, options)) {
    const { workflowId, runId, projectId, jobId, outcome, endedAt } = toSummary(run);
    yield { workflowId, runId, projectId, jobId, outcome, endedAt };
  }
}

/** Lists runs that no other has followed, as after a reset. Temporal's list shows a deleted run for a while. */
async function* listNewest(
  client: Client,
  query: string,
  options: CallOptions,
): AsyncGenerator<WorkflowExecutionInfo, void> {
  for await (const run of listWorkflows(client, query, options)) {
    const read = () => readDescription(client, run.workflowId);
    const newest = await temporalCall(client, options, read).catch(nullIfGone);
    if (newest?.runId === run.runId) yield run;
  }
}

const WAITS_FOR = SEARCH_ATTRIBUTE.waitingFor;

/** Counts by project the jobs that wait for a key, because it is refused or missing. */
export async function* listRefusedKeys(client: Client, options: CallOptions = {}) {
  const query = `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ${IS_OPEN} AND ${WAITS_FOR} = 'key'`;
  const waiting = new Map<string | null, number>();
  for await (const run of listWorkflows(client, query, options)) {
    const { projectId } = toSummary(run);
    waiting.set(projectId, (waiting.get(projectId) ?? 0) + 1);
  }
  for (const [projectId, waitingJobs] of waiting) yield { projectId, waitingJobs };
}

const SCHEDULED = 1; // temporal.api.enums.v1.PendingActivityState

/**
 * Lists the exports that have got no page, or not on, for more than an hour. They wait for `upstream`, `store`, or
 * `worker`: their steps fail for reasons that were not foreseen, or no worker takes them.
 */
export async function* listWaitingExports(client: Client, options: CallOptions = {}) {
  const open = `WorkflowType = '${VISITOR_EXPORT_WORKFLOW}' AND ${IS_OPEN}`;
  for await (const run of listWorkflows(client, `${open} AND ${WAITS_FOR} IS NOT NULL`, options))
    yield { workflowId: run.workflowId, waitsFor: run.typedSearchAttributes.get(keyOf('waitingFor')) ?? null };
  // Without a worker no step ends, so its workflow can't mark itself.
  const since = Date.now() - HOUR_MS;
  const unmarked = `${open} AND ${WAITS_FOR} IS NULL AND StartTime < '${new Date(since).toISOString()}'`;
  for await (const { workflowId } of listWorkflows(client, unmarked, options)) {
    const read = () => readDescription(client, workflowId).catch(nullIfGone);
    const steps = (await temporalCall(client, options, read))?.raw.pendingActivities ?? [];
    const isUntaken = steps.some(({ state, scheduledTime }) => state === SCHEDULED && toMs(scheduledTime) < since);
    if (isUntaken) yield { workflowId, waitsFor: 'worker' };
  }
}

const GIVEN_UP =
  `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND ` +
  `ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut', 'Canceled')`;

/** Lists the deliveries that were given up: the type of the event, its workflow, and the origin of the endpoint. */
export async function* listUndelivered(client: Client, options: CallOptions = {}) {
  for await (const { workflowId, memo, closeTime } of listNewest(client, GIVEN_UP, options)) {
    const { type = null, of = null, to = null } = (memo ?? {}) as { type?: string; of?: string; to?: string };
    yield { workflowId, type, of, to, givenUpAt: closeTime?.toISOString() ?? null };
  }
}

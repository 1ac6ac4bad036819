/**
 * What an operator must see to: jobs that wait for a person to resolve a write in doubt; workflows without progress,
 * because they are paused, their task fails, or no worker of their version runs; runs that ended while the upstream was
 * still at work; and webhooks that were given up.
 */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  AGENT_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  SEARCH_ATTRIBUTE,
  VISITOR_EXPORT_WORKFLOW,
  type Decision,
  type InDoubtWrite,
} from '../../contract.js';
import { DAY_MS } from '../../contract/shared.js';
import { WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW } from '../../contract/webhooks.js';
import { IS_OPEN, pauseOf, quoted } from '../../temporal/visibility.js';
import { concurrently } from '../concurrently.js';
import { livePollers } from '../pollers.js';
import type { CallOptions, ClientContext } from '../settings.js';
import { CALL_TIMEOUT_MS, listWorkflows, temporalCall } from '../temporal-call.js';
import { isInvalidArgument } from '../temporal-errors.js';
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

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const WAITING_FOR = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, SearchAttributeType.KEYWORD);
const PROBLEMS = defineSearchAttributeKey('TemporalReportedProblems', SearchAttributeType.KEYWORD_LIST);
const VERSION = defineSearchAttributeKey('TemporalWorkerDeploymentVersion', SearchAttributeType.KEYWORD);
const TYPES = [
  ...[AGENT_JOB_WORKFLOW, REQUEST_QUEUE_WORKFLOW, VISITOR_EXPORT_WORKFLOW],
  ...[WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW],
];
const OURS = `WorkflowType IN (${TYPES.map(quoted).join(', ')})`;
const PAUSED = `${OURS} AND ExecutionStatus = 'Paused'`;
const REPORTED = `${OURS} AND ${IS_OPEN} AND ${PROBLEMS.name} IS NOT NULL`;
const PINNED = `${OURS} AND ${IS_OPEN} AND TemporalWorkflowVersioningBehavior = 'Pinned'`;

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
  for await (const run of listKnown(client, PAUSED, options)) {
    const read = () => readDescription(client, run.workflowId).catch(nullIfGone);
    const description = await temporalCall(client, options, read);
    const pause = description && pauseOf(description);
    if (!pause) continue;
    listed.add(run.workflowId);
    yield { ...stuckJob(run, null), problems: [], paused: pause.text };
  }
  for await (const run of listKnown(client, REPORTED, options)) {
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
  const problems = pinnedTo === null ? (attributes.get(PROBLEMS) ?? []) : [];
  return { workflowId, workflowType, projectId: attributes.get(PROJECT) ?? null, problems, pinnedTo, paused: null };
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
    if (!isInvalidArgument(error)) throw error;
  }
}

/** A run that ended while the upstream was still at work on its job. */
export interface EarlyEnd {
  workflowId: string;
  runId: string;
  projectId: string | null;
  jobId: string | null;
  /** `timedOut` or `Canceled`. */
  outcome: string | null;
  endedAt: string | null;
}

const ENDED_EARLY =
  `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ${SEARCH_ATTRIBUTE.outcome} IN ('timedOut', 'Canceled') AND ` +
  `${SEARCH_ATTRIBUTE.status} = 'active'`;

/** Lists the runs of the last day that ended so, unless another run has gone on with the job. */
export async function* listEarlyEnds(
  client: Client,
  options: CallOptions = {},
): AsyncGenerator<EarlyEnd, void, undefined> {
  const query = `${ENDED_EARLY} AND CloseTime > '${new Date(Date.now() - DAY_MS).toISOString()}'`;
  for await (const run of listWorkflows(client, query, options)) {
    const { workflowId, runId, projectId, jobId, outcome, endedAt } = toSummary(run);
    const newest = await temporalCall(client, options, () => readDescription(client, workflowId)).catch(nullIfGone);
    if (newest?.runId === runId) yield { workflowId, runId, projectId, jobId, outcome, endedAt };
  }
}

/** A project whose key is refused or missing: its jobs wait. */
interface RefusedKey {
  projectId: string | null;
  /** How many of its jobs wait for a key. */
  waitingJobs: number;
}

/** Lists the projects of jobs that wait for a key. */
export async function* listRefusedKeys(client: Client, options: CallOptions = {}): AsyncGenerator<RefusedKey> {
  const query = `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ${IS_OPEN} AND ${WAITING_FOR.name} = 'key'`;
  const waiting = new Map<string | null, number>();
  for await (const { typedSearchAttributes } of listWorkflows(client, query, options)) {
    const projectId = typedSearchAttributes.get(PROJECT) ?? null;
    waiting.set(projectId, (waiting.get(projectId) ?? 0) + 1);
  }
  for (const [projectId, waitingJobs] of waiting) yield { projectId, waitingJobs };
}

/** An export that has waited for more than an hour. */
interface WaitingExport {
  workflowId: string;
  /** `upstream`, `store`, or `worker` if its steps fail for reasons that were not foreseen. */
  waitsFor: string | null;
}

/** Lists the exports that have got no page, or not on, for more than an hour. */
export async function* listWaitingExports(client: Client, options: CallOptions = {}): AsyncGenerator<WaitingExport> {
  const query = `WorkflowType = '${VISITOR_EXPORT_WORKFLOW}' AND ${IS_OPEN} AND ${WAITING_FOR.name} IS NOT NULL`;
  for await (const { workflowId, typedSearchAttributes } of listWorkflows(client, query, options))
    yield { workflowId, waitsFor: typedSearchAttributes.get(WAITING_FOR) ?? null };
}

/** A delivery that was given up. */
interface UndeliveredWebhook {
  workflowId: string;
  /** The type of the event. */
  type: string | null;
  /** The workflow that the event is about. */
  of: string | null;
  /** The origin of the endpoint. */
  to: string | null;
  givenUpAt: string | null;
}

const GIVEN_UP =
  `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND ` +
  `ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut', 'Canceled')`;

/** Lists those whose newest run gave up; `timeoutMs` is for each request. */
export async function* listUndelivered(
  client: Client,
  options: CallOptions = {},
): AsyncGenerator<UndeliveredWebhook, void, undefined> {
  for await (const { workflowId, runId, memo, closeTime } of listWorkflows(client, GIVEN_UP, options)) {
    // A reset makes another run. Temporal's list shows a deleted run for a while.
    const newest = await temporalCall(client, options, () => readDescription(client, workflowId)).catch(nullIfGone);
    if (newest?.runId !== runId) continue;
    const { type = null, of = null, to = null } = (memo ?? {}) as Partial<UndeliveredWebhook>;
    yield { workflowId, type, of, to, givenUpAt: closeTime?.toISOString() ?? null };
  }
}

/**
 * Workflows that make no progress: their workflow task fails until a worker can run it, or no worker of their version
 * runs. Jobs, and what they wait for.
 */
import type { Client } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  AGENT_JOB_WORKFLOW,
  REQUEST_QUEUE_WORKFLOW,
  SEARCH_ATTRIBUTE,
  VISITOR_EXPORT_WORKFLOW,
  type Phase,
} from '../../contract.js';
import { WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW } from '../../contract/webhooks.js';
import { concurrently } from '../concurrently.js';
import { livePollers } from '../pollers.js';
import { listWorkflows, temporalCall, type CallOptions } from '../temporal-call.js';
import { isInvalidArgument } from '../temporal-errors.js';
import { quoted } from '../visibility-query.js';
import { readTaskFailure } from './no-answer.js';
import { nullIfGone, readDescription } from './run-record.js';

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
const VERSION = defineSearchAttributeKey('TemporalWorkerDeploymentVersion', SearchAttributeType.KEYWORD);
const IS_PINNED = `TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'`;
/** More versions are not looked at in one call. */
const MAX_VERSIONS = 100;
/** A task is repeated once where a worker died with it; more often only where it fails. */
const STUCK_ATTEMPTS = 3;
/** Servers from 1.30 on mark workflows so, after 5 failures and not at once. */
const IS_REPORTED = 'TemporalReportedProblems IS NOT NULL';
const JOBS = [AGENT_JOB_WORKFLOW];
const OTHERS = [
  ...[REQUEST_QUEUE_WORKFLOW, VISITOR_EXPORT_WORKFLOW],
  ...[WEBHOOK_SWEEP_WORKFLOW, WEBHOOK_DELIVERY_WORKFLOW],
];
/** So many of all running jobs are described, newest first: the mark comes late, and not with every server. */
const MAX_DESCRIBED = 200;

/**
 * A job whose workflow task fails again and again: a bug, or a release that does not fit its history. Or one that is
 * pinned to a version whose workers are gone. Or another workflow: those that wait for it make no progress either.
 * Times are ISO 8601.
 */
export interface StuckJob {
  workflowId: string;
  /** `agentJob`, `requestQueue`, `visitorExport`, or one of webhooks. */
  workflowType: string;
  /** Null where it is not listed with the workflow. */
  projectId: string | null;
  phase: Phase | null;
  /** How often the task was tried; 0 of one that is pinned to a version without workers. */
  attempts: number;
  /** When the present attempts began. */
  since: string | null;
  /** What the task failed with; null where its worker did not respond. */
  failure: string | null;
  /** The version without workers to which it is pinned, as `DEPLOYMENT:BUILD_ID`; null where that is not the reason. */
  pinnedTo: string | null;
}

/**
 * Lists running workflows whose workflow task keeps failing, then those of versions without workers. Of the first it
 * examines those that the server marks, and the newest `maxDescribed` of all running jobs, and of all others.
 */
export async function* listStuck(
  client: Client,
  options: CallOptions = {},
  maxDescribed = MAX_DESCRIBED,
): AsyncGenerator<StuckJob, void, undefined> {
  const listed = new Set<string>();
  const describe = (run: ListedRun) => temporalCall(client, options, () => stuckOrNull(client, run));
  const runs = [JOBS, OTHERS].flatMap((types) => [
    listReported(listRunning(client, types, options, IS_REPORTED)),
    listNewest(listRunning(client, types, options), maxDescribed),
  ]);
  for (const listing of runs) {
    for await (const job of concurrently(listing, {}, describe)) {
      if (job === null || listed.has(job.workflowId)) continue;
      listed.add(job.workflowId);
      yield job;
    }
  }
  for await (const job of listPinnedToLost(client, options)) if (!listed.has(job.workflowId)) yield job;
}

async function* listPinnedToLost(client: Client, options: CallOptions): AsyncGenerator<StuckJob, void, undefined> {
  const types = [...JOBS, ...OTHERS];
  for await (const version of lostVersions(client, types, options)) {
    const why = { attempts: 0, since: null, failure: null, pinnedTo: version.name };
    for await (const run of listRunning(client, types, options, isPinnedTo(version))) yield { ...run, ...why };
  }
}

/** What is known of a workflow before it is described. */
type ListedRun = Pick<StuckJob, 'workflowId' | 'workflowType' | 'projectId' | 'phase'>;

async function* listRunning(
  client: Client,
  types: readonly string[],
  options: CallOptions,
  condition?: string,
): AsyncGenerator<ListedRun, void, undefined> {
  const conditions = [isOf(types), `ExecutionStatus = 'Running'`, ...(condition ? [condition] : [])];
  for await (const run of listWorkflows(client, conditions.join(' AND '), options)) {
    const { workflowId, type: workflowType, typedSearchAttributes: attributes } = run;
    const phase = (attributes.get(PHASE) as Phase | undefined) ?? null;
    yield { workflowId, workflowType, projectId: attributes.get(PROJECT) ?? null, phase };
  }
}

function isOf(types: readonly string[]): string {
  return `WorkflowType IN (${types.map(quoted).join(', ')})`;
}

async function* listReported(runs: AsyncIterable<ListedRun>): AsyncGenerator<ListedRun, void, undefined> {
  try {
    yield* runs;
  } catch (error) {
    // An older server has no such mark.
    if (!isInvalidArgument(error)) throw error;
  }
}

async function* listNewest(runs: AsyncIterable<ListedRun>, max: number): AsyncGenerator<ListedRun, void, undefined> {
  let count = 0;
  if (max === 0) return;
  for await (const run of runs) {
    yield run;
    count += 1;
    if (count === max) return;
  }
}

/** Null where the workflow task is well, or the job has ended meanwhile. */
async function stuckOrNull(client: Client, listed: ListedRun): Promise<StuckJob | null> {
  const run = await readDescription(client, listed.workflowId).catch(nullIfGone);
  const task = run?.raw.pendingWorkflowTask;
  const attempts = task?.attempt ?? 0;
  if (!run || !task || attempts < STUCK_ATTEMPTS) return null;
  const seconds = Number(task.originalScheduledTime?.seconds ?? 0);
  const since = seconds === 0 ? null : new Date(seconds * 1_000).toISOString();
  return { ...listed, attempts, since, failure: await readTaskFailure(client, run), pinnedTo: null };
}

/** A version is one of a Worker Deployment, and of one task queue of it. */
interface Version {
  /** As Temporal writes it: deployment, colon, build id. */
  name: string;
  taskQueue: string;
}

/** The versions that running workflows of these types are pinned to, and that no worker polls. */
async function* lostVersions(
  client: Client,
  types: readonly string[],
  options: CallOptions,
): AsyncGenerator<Version, void, undefined> {
  const known: Version[] = [];
  while (known.length < MAX_VERSIONS) {
    const version = await firstOther(client, types, known, options);
    if (version === null) return;
    known.push(version);
    if (!(await temporalCall(client, options, () => isPolled(client, version)))) yield version;
  }
}

/** The condition of a list of all that is pinned to it. */
function isPinnedTo({ name, taskQueue }: Version): string {
  return `${IS_PINNED} AND ${VERSION.name} = ${quoted(name)} AND TaskQueue = ${quoted(taskQueue)}`;
}

/** The version of any workflow that is pinned to none of those. */
async function firstOther(
  client: Client,
  types: readonly string[],
  known: readonly Version[],
  options: CallOptions,
): Promise<Version | null> {
  const isOther = ({ name, taskQueue }: Version) =>
    `(${VERSION.name} != ${quoted(name)} OR TaskQueue != ${quoted(taskQueue)})`;
  try {
    const query = [isOf(types), IS_PINNED, ...known.map(isOther)].join(' AND ');
    for await (const { typedSearchAttributes, taskQueue } of listWorkflows(client, query, options)) {
      const name = typedSearchAttributes.get(VERSION);
      if (name !== undefined) return { name, taskQueue };
    }
  } catch (error) {
    // An older server knows no versions. A name that no query can hold must not end the search in silence.
    if (!isInvalidArgument(error) || known.length > 0) throw error;
  }
  return null;
}

async function isPolled(client: Client, { name, taskQueue }: Version): Promise<boolean> {
  const pollers = await livePollers(client, taskQueue, 'workflow');
  return pollers.some(({ version }) => version === name);
}

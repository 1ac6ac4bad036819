/**
 * Which listed runs are not the last word on their job: a follow-up to an ended job makes a new run under the same
 * workflow id, and attaching to its job one under the id of attached jobs.
 */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, attachedJobWorkflowId } from '../../contract.js';
import { isNotFound } from '../temporal-errors.js';
import { listWorkflows, temporalCall, type CallOptions } from '../temporal-call.js';
import { isAskable, quoted, workflowIdIn } from '../visibility-query.js';
import { JobNotFoundError } from '../errors.js';
import { readDescription } from './run-record.js';

/** What of a listed run matters here. */
export interface ListedRun {
  workflowId: string;
  runId: string;
  projectId: string | null;
  jobId: string | null;
  workflowStatus: string;
  startedAt: string;
}

/** So many ids make a query of some ten thousand characters. */
const IDS_PER_QUERY = 200;

/**
 * The run ids of those that another run of the same job has followed. A running workflow is never among them. A run
 * under the id of attached jobs has labels of its own: whoever lists by label wants it apart.
 */
export async function followedRuns(
  client: Client,
  runs: readonly ListedRun[],
  hasAttached: boolean,
  options: CallOptions,
): Promise<ReadonlySet<string>> {
  const closed = runs
    .filter(({ workflowStatus }) => workflowStatus !== 'RUNNING')
    .map((run) => ({ run, ids: hasAttached ? idsOf(run) : [run.workflowId] }));
  const newest = await readNewest(client, new Set(closed.flatMap(({ ids }) => ids)), options);
  const followed = closed.filter(({ run, ids }) => ids.some((id) => isLater(newest.get(id), run)));
  return new Set(followed.map(({ run }) => run.runId));
}

/** Under which ids a later run of the same job may be. */
function idsOf({ workflowId, projectId, jobId }: ListedRun): string[] {
  const isKnown = projectId !== null && jobId !== null;
  return isKnown ? [workflowId, attachedJobWorkflowId(projectId, jobId)] : [workflowId];
}

interface NewestRun {
  runId: string;
  isRunning: boolean;
  startedAt: number;
}

function isLater(newest: NewestRun | undefined, run: ListedRun): boolean {
  if (newest === undefined || newest.runId === run.runId) return false;
  return newest.isRunning || newest.startedAt >= Date.parse(run.startedAt);
}

async function readNewest(
  client: Client,
  workflowIds: ReadonlySet<string>,
  options: CallOptions,
): Promise<Map<string, NewestRun>> {
  const newest = new Map<string, NewestRun>();
  const take = (run: Pick<WorkflowExecutionInfo, 'workflowId' | 'runId' | 'startTime' | 'status'>): void => {
    const found = { runId: run.runId, isRunning: run.status.name === 'RUNNING', startedAt: run.startTime.getTime() };
    const known = newest.get(run.workflowId);
    const isNewer = known === undefined || (!known.isRunning && (found.isRunning || found.startedAt > known.startedAt));
    if (isNewer) newest.set(run.workflowId, found);
  };
  const ids = [...workflowIds];
  const askable = ids.filter(isAskable);
  for (let at = 0; at < askable.length; at += IDS_PER_QUERY) {
    const some = workflowIdIn(askable.slice(at, at + IDS_PER_QUERY));
    const query = `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)} AND ExecutionStatus != 'ContinuedAsNew' AND ${some}`;
    for await (const run of listWorkflows(client, query, options)) take(run);
  }
  for (const id of ids.filter((one) => !isAskable(one))) {
    const run = await temporalCall(client, options, () => readDescription(client, id).catch(nullIfGone));
    if (run !== null) take(run);
  }
  return newest;
}

/** Null where Temporal has deleted what was listed. */
export function nullIfGone(error: unknown): null {
  if (error instanceof JobNotFoundError || error instanceof WorkflowNotFoundError || isNotFound(error)) return null;
  throw error;
}

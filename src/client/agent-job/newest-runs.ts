/**
 * Which listed runs are not the last word on their job: a follow-up to an ended job makes a new run under the same
 * workflow id, and attaching to its job one under the id of attached jobs.
 */
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, attachedJobWorkflowId } from '../../contract.js';
import { isNotFound } from '../temporal-errors.js';
import { listWorkflows, temporalCall, type CallOptions } from '../temporal-call.js';
import { isAskable, quoted, workflowIdIn } from '../visibility-query.js';
import { JobNotFoundError } from '../errors.js';
import { toSummary, type JobSummary } from './job-summary.js';
import { readDescription } from './run-record.js';

/** So many ids make a query of some ten thousand characters. */
const IDS_PER_QUERY = 200;

/**
 * The runs that no other run of the same job has followed. A running workflow is always among them. A run under the id
 * of attached jobs has labels of its own: whoever lists by label wants it apart.
 */
export async function withoutFollowed(
  client: Client,
  runs: readonly JobSummary[],
  hasAttached: boolean,
  options: CallOptions,
): Promise<JobSummary[]> {
  const closed = runs.filter((run) => !isRunning(run));
  const newest = await readNewest(client, new Set(closed.flatMap((run) => idsOf(run, hasAttached))), options);
  return runs.filter((run) => !isFollowed(run, newest, hasAttached));
}

/** Whether another run follows one, of those that are the newest of their workflow ids. */
export function isFollowed(run: JobSummary, newest: ReadonlyMap<string, JobSummary>, hasAttached: boolean): boolean {
  if (isRunning(run)) return false;
  return idsOf(run, hasAttached).some((id) => {
    const last = newest.get(id);
    return last !== undefined && isLater(last, run);
  });
}

/** Under which ids a later run of the same job may be. */
function idsOf({ workflowId, projectId, jobId }: JobSummary, hasAttached: boolean): string[] {
  const isKnown = hasAttached && projectId !== null && jobId !== null;
  return isKnown ? [workflowId, attachedJobWorkflowId(projectId, jobId)] : [workflowId];
}

function isRunning({ workflowStatus }: JobSummary): boolean {
  return workflowStatus === 'RUNNING';
}

/** Whether a run follows one that is closed. */
function isLater(newest: JobSummary, run: JobSummary): boolean {
  if (newest.runId === run.runId) return false;
  return isRunning(newest) || newest.startedAt >= run.startedAt;
}

async function readNewest(
  client: Client,
  workflowIds: ReadonlySet<string>,
  options: CallOptions,
): Promise<Map<string, JobSummary>> {
  const newest = new Map<string, JobSummary>();
  const take = (run: JobSummary): void => {
    const known = newest.get(run.workflowId);
    if (known === undefined || (!isRunning(known) && isLater(run, known))) {
      newest.set(run.workflowId, run);
    }
  };
  const ids = [...workflowIds];
  const askable = ids.filter(isAskable);
  for (let at = 0; at < askable.length; at += IDS_PER_QUERY) {
    const some = workflowIdIn(askable.slice(at, at + IDS_PER_QUERY));
    const query = `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)} AND ExecutionStatus != 'ContinuedAsNew' AND ${some}`;
    for await (const run of listWorkflows(client, query, options)) take(toSummary(run));
  }
  for (const id of ids.filter((one) => !isAskable(one))) {
    const run = await temporalCall(client, options, () => readDescription(client, id).catch(nullIfGone));
    if (run !== null) take(toSummary(run));
  }
  return newest;
}

/** Null where Temporal has deleted what was listed. */
export function nullIfGone(error: unknown): null {
  if (error instanceof JobNotFoundError || error instanceof WorkflowNotFoundError || isNotFound(error)) return null;
  throw error;
}

/** Jobs without progress, because their workflow task fails: Temporal repeats it until a worker can run it. */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { Phase } from '../../contract.js';
import { readTaskFailure } from './no-answer.js';
import { inBatches, temporalCall, type CallOptions } from '../temporal-call.js';
import { isInvalidArgument } from '../temporal-errors.js';
import { listJobs, type JobSummary } from './list.js';

/** A task is repeated once where a worker died with it; more often only where it fails. */
const STUCK_ATTEMPTS = 3;
/** Servers from 1.30 on mark workflows so, after 5 failures and not at once. */
const IS_REPORTED = 'TemporalReportedProblems IS NOT NULL';
/** So many of all running jobs are described, newest first: the mark comes late, and not with every server. */
const MAX_DESCRIBED = 200;

/**
 * A job whose workflow task fails again and again: a bug, or a release that does not fit its history. Times are ISO
 * 8601.
 */
export interface StuckJob {
  workflowId: string;
  projectId: string | null;
  phase: Phase | null;
  /** How often the task was tried. */
  attempts: number;
  /** When the present attempts began. */
  since: string | null;
  /** What the task failed with; null where its worker did not respond. */
  failure: string | null;
}

/**
 * Lists running jobs whose workflow task keeps failing. It examines those that the server marks, and the newest
 * `maxDescribed` of all running jobs.
 */
export async function* listStuck(
  client: Client,
  options: CallOptions = {},
  maxDescribed = MAX_DESCRIBED,
): AsyncGenerator<StuckJob, void, undefined> {
  const listed = new Set<string>();
  const describe = (job: JobSummary) => temporalCall(client, options, () => stuckOrNull(client, job));
  for (const jobs of [listReported(client, options), listNewest(client, options, maxDescribed)]) {
    for await (const job of inBatches(jobs, describe)) {
      if (job === null || listed.has(job.workflowId)) continue;
      listed.add(job.workflowId);
      yield job;
    }
  }
}

async function* listReported(client: Client, options: CallOptions): AsyncGenerator<JobSummary, void, undefined> {
  try {
    yield* listJobs(client, { isRunning: true }, options, IS_REPORTED);
  } catch (error) {
    // An older server has no such mark.
    if (!isInvalidArgument(error)) throw error;
  }
}

async function* listNewest(
  client: Client,
  options: CallOptions,
  max: number,
): AsyncGenerator<JobSummary, void, undefined> {
  let count = 0;
  if (max === 0) return;
  for await (const job of listJobs(client, { isRunning: true }, options)) {
    yield job;
    count += 1;
    if (count === max) return;
  }
}

/** Null where the workflow task is well, or the job has ended meanwhile. */
async function stuckOrNull(client: Client, { workflowId, projectId, phase }: JobSummary): Promise<StuckJob | null> {
  const run = await describeOrNull(client, workflowId);
  const task = run?.raw.pendingWorkflowTask;
  const attempts = task?.attempt ?? 0;
  if (!run || !task || attempts < STUCK_ATTEMPTS) return null;
  const seconds = Number(task.originalScheduledTime?.seconds ?? 0);
  const since = seconds === 0 ? null : new Date(seconds * 1_000).toISOString();
  return { workflowId, projectId, phase, attempts, since, failure: await readTaskFailure(client, run) };
}

async function describeOrNull(client: Client, workflowId: string): Promise<WorkflowExecutionDescription | null> {
  try {
    return await client.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

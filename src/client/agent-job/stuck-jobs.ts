/** Jobs that stand still because their own code fails: Temporal repeats the workflow task until a worker can run it. */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { Phase } from '../../contract.js';
import { listJobs, type JobSummary } from './list.js';
import { readTaskFailure } from '../../temporal/task-failure.js';
import { temporalCall, type CallOptions } from '../temporal-call.js';
import { isInvalidArgument } from '../temporal-errors.js';

/** A task is repeated once where a worker died with it; more often only where it fails. */
const STUCK_ATTEMPTS = 3;
/** Servers from 1.30 on mark workflows so, after 5 failures and not at once. */
const IS_REPORTED = 'TemporalReportedProblems IS NOT NULL';
/** So many of the other running jobs are looked at, newest first: the mark comes late, and not with every server. */
const MAX_DESCRIBED = 200;
/** Gentle to a server that has other things to do. */
const CONCURRENT_CALLS = 10;

/** A job whose workflow task fails again and again: a bug, or a release that does not fit its history. */
export interface StuckJob {
  workflowId: string;
  projectId: string | null;
  phase: Phase | null;
  /** How often the task was tried. */
  attempts: number;
  /** When the present attempts began. */
  since: string | null;
  /** What the task failed with; null where its worker gave no answer. */
  failure: string | null;
}

/** Running jobs whose workflow task keeps failing: all that the server marks, and of the others the newest that run. */
export async function* listStuck(
  client: Client,
  options: CallOptions = {},
  maxDescribed = MAX_DESCRIBED,
): AsyncGenerator<StuckJob, void, undefined> {
  const told = new Set<string>();
  for (const jobs of [listReported(client, options), listNewest(client, options, maxDescribed)]) {
    for await (const batch of batches(jobs)) {
      for (const job of await describeStuck(client, batch, options)) {
        if (!told.has(job.workflowId)) yield job;
        told.add(job.workflowId);
      }
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
  most: number,
): AsyncGenerator<JobSummary, void, undefined> {
  let count = 0;
  if (most === 0) return;
  for await (const job of listJobs(client, { isRunning: true }, options)) {
    yield job;
    count += 1;
    if (count === most) return;
  }
}

async function* batches(jobs: AsyncIterable<JobSummary>): AsyncGenerator<JobSummary[], void, undefined> {
  let batch: JobSummary[] = [];
  for await (const job of jobs) {
    batch.push(job);
    if (batch.length < CONCURRENT_CALLS) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

async function describeStuck(client: Client, jobs: JobSummary[], options: CallOptions): Promise<StuckJob[]> {
  const found = await Promise.all(jobs.map((job) => temporalCall(client, options, () => stuckOrNull(client, job))));
  return found.filter((job) => job !== null);
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

/** Jobs that stand still because their own code fails: Temporal repeats the workflow task until a worker can run it. */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { Phase } from '../contract.js';
import { listJobs, type JobSummary } from './job-list.js';
import { readTaskFailure } from './task-failure.js';
import { temporalCall, type CallOptions } from './temporal-call.js';

/** A task is repeated once where a worker died with it; more often only where it fails. */
const STUCK_ATTEMPTS = 3;
/** Temporal can't list such jobs by their failure: so many of the running ones are looked at, newest first. */
const MOST_DESCRIBED = 200;
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

/** Running jobs whose workflow task keeps failing, of the first MOST_DESCRIBED that Temporal lists. */
export async function* listStuck(client: Client, options: CallOptions = {}): AsyncGenerator<StuckJob, void, undefined> {
  let batch: JobSummary[] = [];
  let described = 0;
  for await (const job of listJobs(client, { isRunning: true }, options)) {
    batch.push(job);
    described += 1;
    if (batch.length < CONCURRENT_CALLS && described < MOST_DESCRIBED) continue;
    yield* await describeStuck(client, batch, options);
    batch = [];
    if (described >= MOST_DESCRIBED) return;
  }
  yield* await describeStuck(client, batch, options);
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

import { totalmem } from 'node:os';
import { Worker } from '@temporalio/worker';
import type { NativeConnection, WorkerOptions } from '@temporalio/worker';
import type { WorkerConfig } from '../config.js';
import { exportTaskQueue } from '../contract.js';
import { loadWorkflowBundle } from './workflow-bundle.js';

/** What the roles of this process offer. */
export interface Activities {
  jobs: object;
  exports: object;
}

/** An open poll is an activity that waits for the upstream: thousands that hang must leave room for a write. */
const MAX_JOB_ACTIVITIES = 10_000;
/** A chunk of an export holds its pages in memory. */
const MAX_EXPORT_ACTIVITIES = 16;
const MAX_CACHED_WORKFLOWS = 500;
const MIN_CACHED_WORKFLOWS = 50;
/** A cached workflow takes up to 1 MiB; the activities, the pages and the runtime need the rest. */
const MIB_PER_CACHED_WORKFLOW = 4;

/** One worker per role, connected and ready to run. */
export async function createWorkers(
  config: WorkerConfig,
  connection: NativeConnection,
  activities: Activities,
): Promise<Worker[]> {
  const { taskQueue, roles, temporal } = config;
  const shared = { connection, namespace: temporal.namespace, ...loadWorkflowBundle() };
  const workers = roles.map((role) =>
    role === 'jobs'
      ? Worker.create({ ...shared, ...jobOptions(config), taskQueue, activities: activities.jobs })
      : Worker.create({
          ...withoutWorkflows(shared),
          ...exportOptions(),
          taskQueue: exportTaskQueue(taskQueue),
          activities: activities.exports,
        }),
  );
  return Promise.all(workers);
}

/** Limits of the worker that runs the workflows and the jobs' activities. */
export function jobOptions({
  upstreamRequestsPerSecond,
}: Pick<WorkerConfig, 'upstreamRequestsPerSecond'>): Partial<WorkerOptions> {
  return {
    ...draining,
    maxConcurrentActivityTaskExecutions: MAX_JOB_ACTIVITIES,
    maxCachedWorkflows: cachedWorkflows(),
    workflowTaskPollerBehavior: { type: 'autoscaling' },
    activityTaskPollerBehavior: { type: 'autoscaling' },
    // Where a worker died, its workflows' next task goes to another one after this time.
    stickyQueueScheduleToStartTimeout: '5 seconds',
    ...(upstreamRequestsPerSecond !== undefined && { maxTaskQueueActivitiesPerSecond: upstreamRequestsPerSecond }),
  };
}

function exportOptions(): Partial<WorkerOptions> {
  return {
    ...draining,
    maxConcurrentActivityTaskExecutions: MAX_EXPORT_ACTIVITIES,
    activityTaskPollerBehavior: { type: 'autoscaling' },
  };
}

// A write takes at most 20 seconds, a little more to record it; the process ends within 25 seconds.
const draining: Partial<WorkerOptions> = { shutdownGraceTime: '22 seconds', shutdownForceTime: '24 seconds' };

function withoutWorkflows<T extends { workflowBundle: unknown }>({
  workflowBundle: _,
  ...rest
}: T): Omit<T, 'workflowBundle'> {
  return rest;
}

function cachedWorkflows(): number {
  const limit = process.constrainedMemory();
  const bytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  const affordable = Math.floor(bytes / 1024 ** 2 / MIB_PER_CACHED_WORKFLOW);
  return Math.min(MAX_CACHED_WORKFLOWS, Math.max(MIN_CACHED_WORKFLOWS, affordable));
}

/** How many things of each kind a worker does at once, for each of its roles, and how it shuts down. */
import { setMaxListeners } from 'node:events';
import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import { type InjectedSinks, type NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { PayloadKeys, WorkerConfig, WorkerRole } from '../config.js';
import { exportTaskQueue, JOIN_JOB_ACTIVITY } from '../contract.js';
import { Undecodable } from '../contract/kinds.js';
import { STICKY_TIMEOUT_MS } from '../contract/shared.js';
import { webhookTaskQueue } from '../contract/webhooks.js';
import { payloadCodecs } from '../temporal/payload-codec.js';
import type { StaleCopySinks } from '../temporal/private/stale-copy.js';
import { isolateTimeout, loadWorkflowBundle, releaseBuildId } from '../temporal/workflow-bundle.js';
import { addTraceIds, type Logger } from './logging.js';

/** Makes the activities of each role; called for the roles that this process serves. */
type Activities = Record<WorkerRole, () => object>;

/** Bounds open polls, which are activities that wait for the upstream: thousands that hang leave room for a write. */
const MAX_JOB_ACTIVITIES = 10_000;
/** A chunk of an export holds its pages in memory. */
const MAX_EXPORT_ACTIVITIES = 16;
/** Each takes 15 seconds at most: hundreds to a receiver that hangs leave room for the others. */
export const MAX_WEBHOOK_ACTIVITIES = 500;
/** A burst of more open jobs than are cached has each of their tasks replay its history. */
const MAX_CACHED_WORKFLOWS = 1_000;
const MIN_CACHED_WORKFLOWS = 50;
/** A cached workflow takes up to 1 MiB; the activities, the pages and the runtime need the rest. */
const MIB_PER_CACHED_WORKFLOW = 4;
/** Heap of one isolate: a common workflow takes 0.1 MiB. */
const CACHED_WORKFLOWS_PER_HEAP_MIB = 4;

interface WorkersOptions {
  keys: PayloadKeys | undefined;
  /** Gets how many unencrypted payloads were read, though there are keys. */
  onPlain: (payloads: number) => void;
  /** For how long this worker may hold the polls of any job; default by their waits. */
  pollLeaseMs: number | undefined;
  onStaleCopy: () => void;
  /** The activities of webhooks, whatever the roles; null if there are none. */
  webhooks: object | null;
}

/** One worker per role, connected and ready to run; only the jobs role runs workflows, those of the exports too. */
export async function createWorkers(
  config: WorkerConfig,
  connection: NativeConnection,
  { keys, onPlain, pollLeaseMs, onStaleCopy, webhooks, ...activities }: Activities & WorkersOptions,
): Promise<Worker[]> {
  const { taskQueue, roles, temporal } = config;
  const { workflowBundle, dataConverter } = loadWorkflowBundle({ ...config, pollLeaseMs });
  const codecs = payloadCodecs(keys, onPlain);
  const shared = {
    connection,
    namespace: temporal.namespace,
    dataConverter: { ...dataConverter, ...codecs },
    interceptors: { activity: [addTraceIds, requireDecodedArguments] },
    ...versioningOptions(config),
  };
  const options: Record<WorkerRole, WorkerOptions> = {
    jobs: { ...shared, ...jobOptions(config), taskQueue, workflowBundle, sinks: staleCopySinks(onStaleCopy) },
    exports: { ...shared, ...exportOptions(), taskQueue: exportTaskQueue(taskQueue) },
  };
  const all: WorkerOptions[] = roles.map((role) => ({ ...options[role], activities: activities[role]() }));
  if (webhooks) {
    all.push({ ...shared, ...webhookOptions(), taskQueue: webhookTaskQueue(taskQueue), activities: webhooks });
  }
  return Promise.all(all.map((one) => Worker.create(one)));
}

/**
 * Fails an activity whose argument this worker can't decode, so that another worker's attempt does the work. Otherwise
 * a worker without PAYLOAD_KEYS_FILE among workers with it would send requests without project and prompt. Our own
 * workflows give only what can be decoded. `joinAgentJob` has other callers, and checks its input itself.
 */
const requireDecodedArguments: ActivityInterceptorsFactory = ({ info }) => ({
  inbound: {
    execute(input, next) {
      const isOurs = info.activityType !== JOIN_JOB_ACTIVITY;
      if (!isOurs || !input.args.some((argument) => argument instanceof Undecodable)) return next(input);
      throw new Error('this worker can not decode an argument: it may lack PAYLOAD_KEYS_FILE');
    },
  },
});

/** A spoilt copy may be met while it replays. */
function staleCopySinks(onStaleCopy: () => void): InjectedSinks<StaleCopySinks> {
  return { staleCopies: { thrownAway: { fn: onStaleCopy, callDuringReplay: true } } };
}

/** The version of this process's workers; undefined without worker versioning. */
export function workerVersion({ deployment }: Pick<WorkerConfig, 'deployment'>): WorkerDeploymentVersion | undefined {
  return deployment && { deploymentName: deployment.name, buildId: deployment.buildId ?? releaseBuildId() };
}

/** Both roles have the version: an activity of a pinned workflow goes to a worker of the same one. */
function versioningOptions(config: WorkerConfig): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  const version = workerVersion(config);
  if (!version) return {};
  return { workerDeploymentOptions: { version, useWorkerVersioning: true, defaultVersioningBehavior: 'PINNED' } };
}

/** Limits of the worker that runs the workflows and the jobs' activities. */
export function jobOptions({
  upstreamRequestsPerSecond,
}: Pick<WorkerConfig, 'upstreamRequestsPerSecond'>): Partial<WorkerOptions> {
  return {
    ...shutdownOptions,
    ...isolateTimeout,
    maxConcurrentActivityTaskExecutions: MAX_JOB_ACTIVITIES,
    maxCachedWorkflows: cachedWorkflows(),
    workflowTaskPollerBehavior: { type: 'autoscaling' },
    activityTaskPollerBehavior: { type: 'autoscaling' },
    stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT_MS,
    ...(upstreamRequestsPerSecond !== undefined && { maxTaskQueueActivitiesPerSecond: upstreamRequestsPerSecond }),
  };
}

function exportOptions(): Partial<WorkerOptions> {
  return {
    ...shutdownOptions,
    maxConcurrentActivityTaskExecutions: MAX_EXPORT_ACTIVITIES,
    activityTaskPollerBehavior: { type: 'autoscaling' },
  };
}

function webhookOptions(): Partial<WorkerOptions> {
  return { ...shutdownOptions, maxConcurrentActivityTaskExecutions: MAX_WEBHOOK_ACTIVITIES };
}

// A write takes at most 20 seconds, and a little more to record it; the process ends within 25 seconds.
const shutdownOptions: Partial<WorkerOptions> = { shutdownGraceTime: '22 seconds', shutdownForceTime: '24 seconds' };

function cachedWorkflows(): number {
  const limit = process.constrainedMemory();
  const bytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  const heapMib = getHeapStatistics().heap_size_limit / 1024 ** 2;
  const affordable = Math.min(bytes / 1024 ** 2 / MIB_PER_CACHED_WORKFLOW, heapMib * CACHED_WORKFLOWS_PER_HEAP_MIB);
  return Math.min(MAX_CACHED_WORKFLOWS, Math.max(MIN_CACHED_WORKFLOWS, Math.floor(affordable)));
}

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const;
/** The process ends within 25 seconds of the signal, whatever still hangs. */
const EXIT_LIMIT_MS = 24_500;

/** Shuts down in order at the first SIGTERM, SIGINT or SIGQUIT; later ones change nothing. */
export class Shutdown {
  readonly #stopPolls = new AbortController();
  readonly #log: Logger;
  readonly #onBegin: (() => void)[] = [];
  #workers: readonly Worker[] | undefined;

  constructor(log: Logger) {
    this.#log = log;
    // Every poll under way listens, and there may be thousands.
    setMaxListeners(0, this.signal);
    for (const signal of SIGNALS) process.on(signal, () => this.begin(signal));
  }

  /** Aborts at once: activities that only read stop, those that write finish. */
  get signal(): AbortSignal {
    return this.#stopPolls.signal;
  }

  onBegin(...listeners: (() => void)[]): void {
    this.#onBegin.push(...listeners);
  }

  /** Runs the workers until shutdown; throws the first fatal error, after the other workers have drained. */
  async runUntilEnd(workers: readonly Worker[]): Promise<void> {
    this.#workers = workers;
    const runs = workers.map((worker) => worker.run());
    try {
      await Promise.all(runs);
    } catch (error) {
      this.begin('a worker failed');
      await Promise.allSettled(runs);
      throw error;
    }
  }

  begin(reason: string): void {
    if (this.signal.aborted) return;
    this.#log.info({ reason }, 'Shutting down: takes no new work, finishes the writes in flight');
    this.#stopPolls.abort();
    for (const listener of this.#onBegin) listener();
    // Before the workers run there is nothing to finish.
    if (!this.#workers) process.exit(0);
    setTimeout(() => process.exit(1), EXIT_LIMIT_MS).unref();
    for (const worker of this.#workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  }
}

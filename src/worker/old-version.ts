/**
 * Lets the version of this worker drain. A job that waits for its next poll has no workflow task for up to an hour, and
 * learns in none that another version is current. So the workers of a version that is current no more wake its runs,
 * however the other one was made current. A run that may not leave yet does so in a later task of its own.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { Poller } from '../activities/agent-job/poller.js';
import { hasGrpcStatus } from '../temporal/grpc.js';
import { IS_OPEN } from '../temporal/open-workflows.js';
import type { WorkerConfig } from '../config.js';
import { every } from './every.js';
import type { Logger } from './logging.js';
import { workerVersion } from './workers.js';

export interface OldVersionOptions {
  config: Pick<WorkerConfig, 'deployment'>;
  client: Client;
  /** Its poll batches of runs that were woken go back: most of those runs have left. */
  poller: Poller | null;
  log: Logger;
}

/** With the pace below, 10,000 runs are woken within five minutes of the change. */
const LOOK_INTERVAL_MS = 15_000;
/** Each makes a workflow task, and a first poll on the other version: 50 a second. */
const WAKES_AT_ONCE = 10;
const WAKE_PAUSE_MS = 200;
/** A run that is woken leaves within a task. */
const LEAVE_MS = 2_000;
const CALL_LIMIT_MS = 10_000;

/** No workflow has a handler of it: the task that it makes is all that is wanted. */
const WAKE_SIGNAL = 'versionChanged';
const DRAINING = 4; // temporal.api.enums.v1.WorkerDeploymentVersionStatus

/**
 * Looks now and then whether the version of this worker drains, and then wakes its runs; returns what stops that. Where
 * worker versioning is off there is nothing to watch.
 */
export function watchVersion(options: OldVersionOptions): () => void {
  const version = workerVersion(options.config);
  if (!version) return () => {};
  const old = new OldVersion(version, options);
  return every(LOOK_INTERVAL_MS, (stopped) => old.look(stopped), {
    firstMs: LOOK_INTERVAL_MS,
    onError: (error) => options.log.warn({ error }, 'Could not look which version of the workers is current'),
  });
}

class OldVersion {
  readonly #version: WorkerDeploymentVersion;
  readonly #options: OldVersionOptions;
  #isDraining = false;

  constructor(version: WorkerDeploymentVersion, options: OldVersionOptions) {
    this.#version = version;
    this.#options = options;
  }

  async look(stopped: AbortSignal): Promise<void> {
    const drainingSince = await this.#drainingSince();
    this.#tell(drainingSince !== null);
    if (drainingSince === null) return;
    const woken = new Set<string>();
    let batch: WorkflowExecutionInfo[] = [];
    let unwoken: Error | null = null as Error | null;
    // One that takes no signal, such as one with a history that is full, must not keep the others.
    const onUnwoken = (error: Error) => (unwoken ??= error);
    const wake = async () => {
      await Promise.all(batch.map((run) => this.#wake(run, drainingSince).catch(onUnwoken)));
      for (const { workflowId } of batch) woken.add(workflowId);
      batch = [];
      await delay(WAKE_PAUSE_MS);
    };
    for await (const run of this.#options.client.workflow.list({ query: runsOf(this.#version) })) {
      if (stopped.aborted) return;
      batch.push(run);
      if (batch.length === WAKES_AT_ONCE) await wake();
    }
    await wake();
    if (woken.size > 0) {
      await delay(LEAVE_MS);
      this.#options.poller?.handBack(woken, 'another version of the workers is current');
    }
    if (unwoken !== null) throw unwoken;
  }

  /** Milliseconds; null where this version is current, takes a part of the jobs, or has no run any more. */
  async #drainingSince(): Promise<number | null> {
    const { client } = this.#options;
    const request = { namespace: client.options.namespace, deploymentVersion: this.#version };
    try {
      const { workerDeploymentVersionInfo: info } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
        client.workflowService.describeWorkerDeploymentVersion(request),
      );
      if (Number(info?.status) !== DRAINING) return null;
      return Number(info?.drainageInfo?.lastChangedTime?.seconds ?? 0) * 1_000;
    } catch (error) {
      // The server learns of the version from its first worker's polls.
      if (isNotFound(error)) return null;
      throw error;
    }
  }

  /**
   * The server takes one signal of a request id: many workers, and ever rarer tries, cost a run little. The first may
   * come before the server has told its task queues of the change.
   */
  async #wake({ workflowId, runId }: WorkflowExecutionInfo, drainingSince: number): Promise<void> {
    const { client } = this.#options;
    const looks = Math.max(0, Date.now() - drainingSince) / LOOK_INTERVAL_MS;
    const requestId = `${WAKE_SIGNAL}/${this.#version.buildId}/${drainingSince}/${Math.floor(Math.log2(looks + 1))}`;
    const workflowExecution = { workflowId, runId };
    const request = { namespace: client.options.namespace, workflowExecution, signalName: WAKE_SIGNAL, requestId };
    try {
      await client.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
        client.workflowService.signalWorkflowExecution(request),
      );
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  #tell(isDraining: boolean): void {
    if (isDraining === this.#isDraining) return;
    this.#isDraining = isDraining;
    const { deploymentName, buildId } = this.#version;
    const told = isDraining
      ? 'Another version of the workers is current: the runs of this one are woken, and go on there'
      : 'The runs of this version of the workers have left, or it is current again';
    this.#options.log.info({ deployment: deploymentName, buildId }, told);
  }
}

function runsOf({ deploymentName, buildId }: WorkerDeploymentVersion): string {
  const ofVersion = `TemporalWorkerDeploymentVersion = '${deploymentName}:${buildId}'`;
  return `${ofVersion} AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ${IS_OPEN}`;
}

/** The native connection wraps some answers of the server. */
function isNotFound(error: unknown): boolean {
  return hasGrpcStatus(error, 'notFound') || hasGrpcStatus((error as { cause?: unknown }).cause, 'notFound');
}

/**
 * Lets the version of this worker drain. A job that waits for its next poll has no workflow task for up to an hour, and
 * learns in none that another version is current. Once a version is no longer current, its own workers wake its runs,
 * no matter how the other version became current. A run that may not leave yet does so in a later task of its own.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { HeldPolls } from '../activities/agent-job/held-polls.js';
import { hasGrpcStatus } from '../temporal/grpc.js';
import { openRunsPinnedTo } from '../temporal/visibility.js';
import type { WorkerConfig } from '../config.js';
import { every, WATCH_LIMIT_MS } from './every.js';
import type { Logger } from './logging.js';
import { workerVersion } from './workers.js';

interface OldVersionOptions {
  config: Pick<WorkerConfig, 'deployment'>;
  client: Client;
  /** Its poll batches of runs that were woken go back: most of those runs have left. */
  heldPolls: HeldPolls | null;
  log: Logger;
}

/** With the pace below, 10,000 runs are woken within five minutes of the change. */
const CHECK_INTERVAL_MS = 15_000;
/** Each makes a workflow task, and a first poll on the other version: 50 a second. */
const WAKES_AT_ONCE = 10;
const WAKE_PAUSE_MS = 200;
/** A run that is woken leaves within a task. */
const LEAVE_MS = 2_000;

/** No workflow has a handler of it: the task that it makes is all that is wanted. */
const WAKE_SIGNAL = 'versionChanged';
const DRAINING = 4; // temporal.api.enums.v1.WorkerDeploymentVersionStatus

/** Checks now and then whether this worker's version drains, and then wakes its runs; returns what stops that. */
export function watchVersion({ config, client, heldPolls, log }: OldVersionOptions): () => void {
  const version = workerVersion(config);
  if (!version) return () => {};
  let isDraining = false;
  const check = async (stopped: AbortSignal) => {
    const since = await drainingSince(client, version);
    if ((since !== null) !== isDraining) {
      isDraining = since !== null;
      const { deploymentName: deployment, buildId } = version;
      const text = isDraining
        ? 'Another version of the workers is current: the runs of this one are woken, and go on there'
        : 'The runs of this version of the workers have left, or it is current again';
      log.info({ deployment, buildId }, text);
    }
    if (since !== null) await wakeRuns({ client, heldPolls, version, since, stopped });
  };
  return every(CHECK_INTERVAL_MS, check, {
    firstMs: CHECK_INTERVAL_MS,
    onError: (error) => log.warn({ error }, 'Could not check which version of the workers is current'),
  });
}

/** Milliseconds; null if this version is current, takes a part of the jobs, or has no run any more. */
async function drainingSince(client: Client, deploymentVersion: WorkerDeploymentVersion): Promise<number | null> {
  const { namespace } = client.options;
  try {
    const { workerDeploymentVersionInfo: info } = await client.withDeadline(Date.now() + WATCH_LIMIT_MS, () =>
      client.workflowService.describeWorkerDeploymentVersion({ namespace, deploymentVersion }),
    );
    if (Number(info?.status) !== DRAINING) return null;
    return Number(info?.drainageInfo?.lastChangedTime?.seconds ?? 0) * 1_000;
  } catch (error) {
    // The server learns of the version from its first worker's polls.
    if (hasGrpcStatus(error, 'notFound')) return null;
    throw error;
  }
}

interface Draining extends Pick<OldVersionOptions, 'client' | 'heldPolls'> {
  version: WorkerDeploymentVersion;
  since: number;
  stopped: AbortSignal;
}

async function wakeRuns({ client, heldPolls, version, since, stopped }: Draining): Promise<void> {
  const woken = new Set<string>();
  const failures: unknown[] = [];
  // The server takes one signal per request id. All workers share an id, which changes ever more rarely, so a run gets
  // few signals. One is not enough: the first may come before the task queues know of the change.
  const checks = Math.max(0, Date.now() - since) / CHECK_INTERVAL_MS;
  const requestId = `${WAKE_SIGNAL}/${version.buildId}/${since}/${Math.floor(Math.log2(checks + 1))}`;
  const query = openRunsPinnedTo(`${version.deploymentName}:${version.buildId}`);
  let batch: Promise<void>[] = [];
  for await (const run of client.workflow.list({ query })) {
    if (stopped.aborted) return;
    // One that takes no signal, such as one with a full history, must not keep the others.
    batch.push(wake(client, run, requestId).catch((error: unknown) => void failures.push(error)));
    woken.add(run.workflowId);
    if (batch.length < WAKES_AT_ONCE) continue;
    await Promise.all(batch);
    batch = [];
    await delay(WAKE_PAUSE_MS);
  }
  await Promise.all(batch);
  if (woken.size > 0) {
    await delay(LEAVE_MS);
    heldPolls?.handBack(woken, 'another version of the workers is current');
  }
  if (failures.length > 0) throw failures[0] as Error;
}

async function wake(client: Client, { workflowId, runId }: WorkflowExecutionInfo, requestId: string): Promise<void> {
  const { namespace } = client.options;
  const request = { namespace, workflowExecution: { workflowId, runId }, signalName: WAKE_SIGNAL, requestId };
  try {
    await client.withDeadline(Date.now() + WATCH_LIMIT_MS, () =>
      client.workflowService.signalWorkflowExecution(request),
    );
  } catch (error) {
    if (!hasGrpcStatus(error, 'notFound')) throw error;
  }
}

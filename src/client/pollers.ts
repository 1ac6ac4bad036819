/** Who polls a task queue, as Temporal remembers it. */
import type { Client } from '@temporalio/client';

/** Values of `TaskQueueType`. */
const QUEUE_TYPE = { workflow: 1, activity: 2 } as const;
const VERSIONED = 2; // temporal.api.enums.v1.WorkerVersioningMode
/** A worker that waits for work polls anew at least once a minute; the server lists it for five. */
const POLLED_WITHIN_MS = 90_000;

/** What a worker polls a task queue for. */
export type PolledFor = keyof typeof QUEUE_TYPE;

/** A worker that polled. */
interface Poller {
  identity: string;
  /** Its version as Temporal writes it, deployment and build id; null where it has none. */
  version: string | null;
  /** Whether new runs come to it, and those that follow the current version. */
  isCurrent: boolean;
}

/** The workers that polled so lately that they may live. */
export async function livePollers(client: Client, taskQueue: string, polledFor: PolledFor): Promise<Poller[]> {
  const { pollers, versioningInfo } = await client.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name: taskQueue },
    taskQueueType: QUEUE_TYPE[polledFor],
  });
  const { currentDeploymentVersion, rampingDeploymentVersion, rampingVersionPercentage } = versioningInfo ?? {};
  const served = [nameOf(currentDeploymentVersion)];
  if (rampingVersionPercentage) served.push(nameOf(rampingDeploymentVersion));
  const since = Date.now() - POLLED_WITHIN_MS;
  const live = (pollers ?? []).filter(({ lastAccessTime: at }) => Number(at?.seconds ?? 0) * 1_000 > since);
  return live.map(({ identity, deploymentOptions }) => {
    const version = deploymentOptions?.workerVersioningMode === VERSIONED ? nameOf(deploymentOptions) : null;
    return { identity: identity ?? 'a worker', version, isCurrent: served.includes(version) };
  });
}

type Version = { deploymentName?: string | null; buildId?: string | null };

/** A version as Temporal writes it; null stands for workers without one. */
function nameOf(version: Version | null | undefined): string | null {
  return version ? `${version.deploymentName}:${version.buildId}` : null;
}

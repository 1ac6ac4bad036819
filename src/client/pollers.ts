/** Which workers poll a task queue, as Temporal remembers it, and whether new runs come to them. */
import type { Client } from '@temporalio/client';
import { arePollsCut, readHeartbeats, toMs } from '../temporal/heartbeats.js';
import { openRunsPinnedTo, quoted } from '../temporal/visibility.js';

/** Values of `TaskQueueType`. */
const QUEUE_TYPE = { workflow: 1, activity: 2 } as const;
const VERSIONED = 2; // temporal.api.enums.v1.WorkerVersioningMode
/** A worker that waits for work polls anew once a minute; the server lists it for five. */
const POLLED_WITHIN_MS = 75_000;
const RUNNING_WORKER = 1; // temporal.api.enums.v1.WorkerStatus
/** The last poll of a worker that ends may come 2 seconds after its report. */
const LAST_POLL_MS = 2_000;

/** What a worker polls a task queue for. */
export type PolledFor = keyof typeof QUEUE_TYPE;

interface Poller {
  identity: string;
  /** When it did, as the server has it. */
  at: number;
  /** Its version as Temporal writes it, deployment and build id; null if it has none. */
  version: string | null;
  /** Whether new runs come to it, and those that follow the current version. */
  isCurrent: boolean;
  isCut: boolean;
}

/** The workers that polled so lately that they may live, and have not reported since that they end. */
export async function livePollers(client: Client, taskQueue: string, polledFor: PolledFor): Promise<Poller[]> {
  const { namespace } = client.options;
  const taskQueueType = QUEUE_TYPE[polledFor];
  const [{ pollers, versioningInfo }, reports] = await Promise.all([
    client.workflowService.describeTaskQueue({ namespace, taskQueue: { name: taskQueue }, taskQueueType }),
    readHeartbeats(client, `TaskQueue = ${quoted(taskQueue)}`),
  ]);
  const { currentDeploymentVersion, rampingDeploymentVersion, rampingVersionPercentage } = versioningInfo ?? {};
  const served = [nameOf(currentDeploymentVersion)];
  if (rampingVersionPercentage) served.push(nameOf(rampingDeploymentVersion));
  const since = Date.now() - POLLED_WITHIN_MS;
  const ended = reports.filter(({ status }) => (status ?? RUNNING_WORKER) > RUNNING_WORKER);
  const endOf = new Map(ended.map(({ workerIdentity, heartbeatTime }) => [workerIdentity, toMs(heartbeatTime)]));
  const polled = (pollers ?? []).map(({ identity, lastAccessTime, deploymentOptions }) => {
    const version = deploymentOptions?.workerVersioningMode === VERSIONED ? nameOf(deploymentOptions) : null;
    const isCut = reports.some((report) => report.workerIdentity === identity && arePollsCut(report));
    return { identity: identity ?? '', at: toMs(lastAccessTime), version, isCurrent: served.includes(version), isCut };
  });
  return polled.filter(({ identity, at }) => at > Math.max(since, (endOf.get(identity) ?? 0) + LAST_POLL_MS));
}

const DRAINS: unknown[] = [4, 5]; // temporal.api.enums.v1.WorkerDeploymentVersionStatus: draining, drained

/** The versions among these workers that were current and are no longer, and that no open run needs. */
export async function idleVersions(client: Client, pollers: readonly Poller[]): Promise<string[]> {
  const { namespace } = client.options;
  const versions = new Set(pollers.flatMap(({ version, isCurrent }) => (version && !isCurrent ? [version] : [])));
  const found = [...versions].map(async (version) => {
    const [deploymentName = '', buildId = ''] = version.split(/:(.*)/s);
    const request = { namespace, deploymentVersion: { deploymentName, buildId } };
    const { workerDeploymentVersionInfo: info } = await client.workflowService.describeWorkerDeploymentVersion(request);
    if (!DRAINS.includes(info?.status)) return [];
    return (await client.workflow.count(openRunsPinnedTo(version))).count === 0 ? [version] : [];
  });
  return (await Promise.all(found)).flat();
}

type Version = { deploymentName?: string | null; buildId?: string | null };

/** A version as Temporal writes it; null stands for workers without one. */
function nameOf(version: Version | null | undefined): string | null {
  return version ? `${version.deploymentName}:${version.buildId}` : null;
}

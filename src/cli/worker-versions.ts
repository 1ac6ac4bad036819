/** What Temporal says of the versions of a Worker Deployment, and which open runs are pinned to each. */
import type { Client } from '@temporalio/client';
import { temporalCall } from '../client/temporal-call.js';
import { hasGrpcStatus } from '../temporal/grpc-status.js';

/** What a version is good for. `old` versions have been current, `new` ones have not. */
type VersionState = 'current' | 'ramping' | 'old' | 'new';

/** One version of the workers. */
export interface WorkerVersion {
  buildId: string;
  state: VersionState;
  /** Open runs that only workers of this version take up. */
  openRuns: number;
  /** Whether its workers may be stopped for good. */
  canGo: boolean;
}

/** The versions of a deployment, the newest first. */
export interface DeploymentReport {
  deployment: string;
  /** Null while work goes to workers without a version. */
  current: string | null;
  versions: WorkerVersion[];
}

// temporal.api.enums.v1.WorkerDeploymentVersionStatus
const STATES: Record<number, VersionState> = { 1: 'new', 2: 'current', 3: 'ramping', 4: 'old', 5: 'old', 6: 'new' };

/** No worker of that deployment, or of that version, has polled yet. */
export class NoVersionError extends Error {
  override readonly name = 'NoVersionError';
}

/** Reads the versions of a deployment, and counts their runs; throws NoVersionError. */
export async function readDeployment(
  client: Client,
  deployment: string,
  signal: AbortSignal,
): Promise<DeploymentReport> {
  const { versions, current } = await describe(client, deployment, signal);
  const counted = versions.map(async ({ buildId, state }) => {
    const openRuns = await countOpen(client, `${deployment}:${buildId}`, signal);
    return { buildId, state, openRuns, canGo: state === 'old' && openRuns === 0 };
  });
  return { deployment, current, versions: await Promise.all(counted) };
}

/** Makes a version current; throws NoVersionError where its workers do not poll every task queue yet. */
export async function makeCurrent(client: Client, deployment: string, buildId: string, signal: AbortSignal) {
  const { conflictToken } = await describe(client, deployment, signal);
  const { namespace, identity } = client.options;
  const request = { namespace, identity, deploymentName: deployment, buildId, conflictToken };
  await toldOfVersions(client, signal, () => client.workflowService.setWorkerDeploymentCurrentVersion(request));
}

async function describe(client: Client, deploymentName: string, signal: AbortSignal) {
  const { namespace } = client.options;
  const { workerDeploymentInfo: info, conflictToken } = await toldOfVersions(client, signal, () =>
    client.workflowService.describeWorkerDeployment({ namespace, deploymentName }),
  );
  const versions = (info?.versionSummaries ?? []).map(({ deploymentVersion, status }) => ({
    buildId: deploymentVersion?.buildId ?? '',
    state: STATES[Number(status)] ?? 'new',
  }));
  return { versions, current: info?.routingConfig?.currentDeploymentVersion?.buildId || null, conflictToken };
}

/** The server's answers about what is missing, in its own words. */
async function toldOfVersions<T>(client: Client, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  const answer = await temporalCall(client, { signal }, async () => {
    try {
      return { value: await call() };
    } catch (error) {
      if (!hasGrpcStatus(error, 'notFound') && !hasGrpcStatus(error, 'failedPrecondition')) throw error;
      return { missing: (error as { details?: string }).details ?? 'no such version' };
    }
  });
  if ('missing' in answer) throw new NoVersionError(answer.missing);
  return answer.value;
}

/** A run that is not pinned may still name the version of its last task. */
async function countOpen(client: Client, version: string, signal: AbortSignal): Promise<number> {
  const ofVersion = `TemporalWorkerDeploymentVersion = '${version}' AND TemporalWorkflowVersioningBehavior = 'Pinned'`;
  const query = `${ofVersion} AND ExecutionStatus = 'Running'`;
  return (await temporalCall(client, { signal }, () => client.workflow.count(query))).count;
}

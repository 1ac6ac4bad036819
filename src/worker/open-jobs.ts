/** Counts the running jobs of the namespace for the metrics, with a few bounded calls a minute for each version. */
import type { Client } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import {
  AGENT_JOB_WORKFLOW,
  type Phase,
  PHASES,
  REQUEST_QUEUE_WORKFLOW,
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
  VISITOR_EXPORT_WORKFLOW,
} from '../contract.js';
import type { WorkerConfig } from '../config.js';
import { hasGrpcStatus } from '../temporal/grpc.js';
import { IS_OPEN, openRunsPinnedTo } from '../temporal/visibility.js';
import { every, WATCH_EVERY_MS, WATCH_LIMIT_MS } from './every.js';
import { atMostEvery, type Logger } from './logging.js';
import type { Meters } from './metrics.js';
import { workerVersion } from './workers.js';

const OPEN_PHASES = PHASES.filter((phase) => phase !== 'done');
/** The ages by which jobs without an id are counted, in minutes. */
const AGES = { '10m': 10, '1h': 60, '2h': 120, '6h': 360 };

const runningOf = (workflowType: string) => `WorkflowType = '${workflowType}' AND ${IS_OPEN}`;
const RUNNING_JOBS = runningOf(AGENT_JOB_WORKFLOW);
const phaseIs = (phase: Phase) => `${RUNNING_JOBS} AND ${SEARCH_ATTRIBUTE.phase} = '${phase}'`;

/** They have waited for more than an hour. */
const WAITING_EXPORTS = `${runningOf(VISITOR_EXPORT_WORKFLOW)} AND ${SEARCH_ATTRIBUTE.waitingFor} IS NOT NULL`;

const DRAINED = 5; // temporal.api.enums.v1.WorkerDeploymentVersionStatus

/**
 * Finds the versions of the workers by which open jobs are counted, '' for none, each with its condition. One that was
 * found stays: it must be seen that its jobs have left.
 */
async function findVersions(found: Map<string, string>, client: Client, own?: WorkerDeploymentVersion): Promise<void> {
  if (!own) return void found.set('', '');
  const { deploymentName, buildId } = own;
  const request = { namespace: client.options.namespace, deploymentName };
  const described = await client
    .withDeadline(Date.now() + WATCH_LIMIT_MS, () => client.workflowService.describeWorkerDeployment(request))
    // The server learns of a deployment from the polls of its first worker.
    .catch(() => null);
  const listed = described?.workerDeploymentInfo?.versionSummaries ?? [];
  const needed = listed.filter(({ status }) => Number(status) !== DRAINED);
  found.set('', ' AND TemporalWorkerDeploymentVersion IS NULL');
  for (const id of [buildId, ...needed.map(({ deploymentVersion }) => deploymentVersion?.buildId)]) {
    if (id) found.set(id, ` AND ${openRunsPinnedTo(`${deploymentName}:${id}`)}`);
  }
}

type Count = [meter: keyof Meters & `${string}Jobs`, labels: Record<string, string>, query: string];

/** All that is counted: each with its meter, its labels and its query. */
function counts(now: number, versions: ReadonlyMap<string, string>): Count[] {
  const createdBefore = (minutes: number) => new Date(now - minutes * 60_000).toISOString();
  return [
    ...[...versions].flatMap(([version, isOf]) =>
      OPEN_PHASES.map((phase): Count => ['openJobs', { phase, version }, phaseIs(phase) + isOf]),
    ),
    ['attentionJobs', {}, phaseIs('needsAttention')],
    ...SHOWN_WAITING_FOR.map((reason): Count => [
      'waitingJobs',
      { for: reason },
      `${RUNNING_JOBS} AND ${SEARCH_ATTRIBUTE.waitingFor} = '${reason}'`,
    ]),
    ...Object.entries(AGES).map(([olderThan, minutes]): Count => [
      'uncreatedJobs',
      { older_than: olderThan },
      `${phaseIs('creating')} AND StartTime <= '${createdBefore(minutes)}'`,
    ]),
  ];
}

/** Counts once a minute; returns what stops it. */
export function watchOpenJobs(client: Client, config: WorkerConfig, meters: Meters, log: Logger): () => void {
  const versions = new Map<string, string>();
  const count = async () => {
    await findVersions(versions, client, workerVersion(config));
    for (const [meter, labels, query] of counts(Date.now(), versions)) {
      meters[meter].set(await countWorkflows(client, query), labels);
    }
    meters.waitingExports.set(await countWorkflows(client, WAITING_EXPORTS));
    meters.requestQueues.set(await countWorkflows(client, runningOf(REQUEST_QUEUE_WORKFLOW)));
    meters.lastCount.set(Date.now() / 1_000);
  };
  const onError = (error: unknown) => log.warn({ error }, 'Could not count the running jobs, for the metrics');
  return every(WATCH_EVERY_MS, count, { onError });
}

const WARN_EVERY_MS = 3_600_000;
const LACKING =
  'Search attributes are not registered, or have another type, and no job makes progress without them: ' +
  'run "agent-jobs setup"';

/**
 * Makes the check for search attributes that the namespace lacks: it returns them, and warns of them. It asks no more
 * once all are there, and needs no more than a worker's own permissions.
 */
export function searchAttributesCheck(client: Client, log: Logger): (deadline: number) => Promise<string | undefined> {
  const { namespace } = client.options;
  const names = Object.values(SEARCH_ATTRIBUTE);
  let isOver = false;
  const warn = atMostEvery(WARN_EVERY_MS, (fields: object, text: string) => log.warn({ namespace, ...fields }, text));
  return async (deadline) => {
    if (isOver) return undefined;
    try {
      const isThere = await Promise.all(names.map((name) => isRegistered(client, name, deadline)));
      const missing = names.filter((_, index) => !isThere[index]);
      isOver = missing.length === 0;
      if (isOver) return undefined;
      warn({ missing }, LACKING);
      const which = missing.join(', ');
      return `search attributes are not registered, or have another type: ${which}; run "agent-jobs setup"`;
    } catch (error) {
      isOver = hasGrpcStatus(error, 'permissionDenied');
      warn({ error }, 'Could not check whether the search attributes are registered');
      return undefined;
    }
  };
}

async function isRegistered(client: Client, name: string, deadline: number): Promise<boolean> {
  try {
    await countWorkflows(client, `${name} = 'none'`, deadline);
    return true;
  } catch (error) {
    // It names a search attribute that the namespace does not know, or whose type takes no text.
    if (hasGrpcStatus(error, 'invalidArgument')) return false;
    throw error;
  }
}

async function countWorkflows(
  { connection, options }: Client,
  query: string,
  deadline = Date.now() + WATCH_LIMIT_MS,
): Promise<number> {
  const { namespace } = options;
  const { count } = await connection.withDeadline(deadline, () =>
    connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count);
}

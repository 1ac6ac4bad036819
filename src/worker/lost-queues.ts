/**
 * Finds the jobs whose queue is gone: somebody terminated it, to have it forget what it learned. They hear nothing, and
 * would ask again after hours; a worker has them ask at once.
 */
import { Client, type WorkflowExecutionInfo } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { openPayloadKeys, type WorkerConfig } from '../config.js';
import { AGENT_JOB_WORKFLOW, pollNowSignal, requestQueueId, SEARCH_ATTRIBUTE } from '../contract.js';
import { payloadCodecs } from '../temporal/payload-codec.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

const LOOK_INTERVAL_MS = 120_000;
const CALL_LIMIT_MS = 10_000;

export interface WatchLostQueuesOptions {
  config: Pick<WorkerConfig, 'payloadKeysFile' | 'roles' | 'taskQueue' | 'temporal'>;
  connection: NativeConnection;
  log: Logger;
}

/** Looks every two minutes; returns what stops that. */
export function watchLostQueues({ config, connection, log }: WatchLostQueuesOptions): () => void {
  const { roles, taskQueue, temporal, payloadKeysFile } = config;
  if (!roles.includes('jobs')) return () => {};
  const dataConverter = payloadCodecs(openPayloadKeys(payloadKeysFile));
  const client = new Client({ connection, namespace: temporal.namespace, dataConverter });
  const look = async (stopped: AbortSignal) => {
    const asked = await wakeWaiters(client, taskQueue, stopped);
    if (asked > 0) log.info({ jobs: asked }, 'Jobs waited for a queue that is gone: they ask for their turn again');
  };
  const onError = (error: unknown) => log.debug({ error }, 'Could not look for jobs whose queue is gone');
  // Workers that start together do not look together.
  return every(LOOK_INTERVAL_MS, look, { firstMs: LOOK_INTERVAL_MS * (0.5 + Math.random()), onError });
}

/** Has the jobs whose queue does not run ask for their turn again; returns how many. */
export async function wakeWaiters(client: Client, taskQueue: string, stopped: AbortSignal): Promise<number> {
  const isLost = new Map<string, boolean>();
  let asked = 0;
  for await (const run of client.workflow.list({ query: waitingJobs(taskQueue) })) {
    if (stopped.aborted) break;
    const queueId = queueOf(run);
    if (queueId === null) continue;
    if (!isLost.has(queueId)) isLost.set(queueId, await isGone(client, queueId));
    if (!isLost.get(queueId)) continue;
    await client.workflow.getHandle(run.workflowId).signal(pollNowSignal);
    asked += 1;
  }
  return asked;
}

/** The id of the queue that it waits in; null where its attributes do not tell. */
function queueOf({ typedSearchAttributes }: WorkflowExecutionInfo): string | null {
  const values = new Map(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
  const projectId = values.get(SEARCH_ATTRIBUTE.project);
  if (typeof projectId !== 'string') return null;
  const operation = values.get(SEARCH_ATTRIBUTE.phase) === 'creating' ? 'create' : 'message';
  return requestQueueId({ operation, projectId });
}

function waitingJobs(taskQueue: string): string {
  const isOwn = `TaskQueue = '${taskQueue.replaceAll("'", "''")}'`;
  const waits = `${SEARCH_ATTRIBUTE.waitingFor} IN ('turn', 'rateLimit')`;
  return `WorkflowType = '${AGENT_JOB_WORKFLOW}' AND ExecutionStatus = 'Running' AND ${isOwn} AND ${waits}`;
}

async function isGone(client: Client, queueId: string): Promise<boolean> {
  try {
    const queue = client.workflow.getHandle(queueId);
    const { status } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () => queue.describe());
    return status.name !== 'RUNNING';
  } catch (error) {
    return error instanceof Error && error.name === 'WorkflowNotFoundError';
  }
}

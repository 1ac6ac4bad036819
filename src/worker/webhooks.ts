/** Webhooks on a worker that has WEBHOOKS_FILE: their activities, and the workflow that finds the events. */
import { Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import type { Metrics } from '../activities/metrics.js';
import { openPayloadKeys, readWebhooksConfig, type WorkerConfig } from '../config.js';
import { WEBHOOK_SWEEP_WORKFLOW, webhookSweepId, type WebhookSweepState } from '../contract/webhooks.js';
import { payloadCodecs } from '../temporal/payload-codec.js';
import { createWebhookActivities } from '../activities/webhooks/activities.js';
import { Endpoints } from '../activities/webhooks/endpoints.js';
import { every } from './every.js';
import type { Logger } from './logging.js';

interface WebhooksOptions {
  config: WorkerConfig;
  metrics: Metrics;
  log: Logger;
  shutdownSignal: AbortSignal;
}

/** The activities; null where the worker has no WEBHOOKS_FILE. A wrong one is told, and harms no job. */
export async function openWebhooks({ config, metrics, log, shutdownSignal }: WebhooksOptions): Promise<object | null> {
  const { webhooks, taskQueue, temporal } = config;
  if (webhooks === undefined) return null;
  const onProblem = (problem: string | null) => {
    metrics.webhooksWrong(problem !== null);
    if (problem !== null) log.warn({ problem }, 'Webhooks have a wrong setting');
  };
  const endpoints = new Endpoints({ ...webhooks, onProblem });
  metrics.webhooksWrong(false);
  await endpoints.count().catch((error: unknown) => onProblem((error as Error).message));
  return createWebhookActivities({
    ...{ taskQueue, endpoints, shutdownSignal },
    webUiUrl: webhooks.webUiUrl,
    address: temporal.address,
    onTry: metrics.webhookTried,
  });
}

/** How many the environment names; null where it names no file. Throws where that is wrong. */
export async function countEndpoints(): Promise<number | null> {
  const webhooks = readWebhooksConfig();
  return webhooks === undefined ? null : new Endpoints(webhooks).count();
}

const LOOK_INTERVAL_MS = 60_000;
const CALL_LIMIT_MS = 10_000;

/** Starts the sweep wherever it does not run; returns what stops that. */
export function keepSweeping(config: WorkerConfig, connection: NativeConnection, log: Logger): () => void {
  const { webhooks, temporal, taskQueue, payloadKeysFile } = config;
  if (webhooks === undefined) return () => {};
  const dataConverter = payloadCodecs(openPayloadKeys(payloadKeysFile));
  const client = new Client({ connection, namespace: temporal.namespace, dataConverter });
  const look = () => client.withDeadline(Date.now() + CALL_LIMIT_MS, () => startSweep(client, taskQueue));
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not start the workflow that finds events: tries again');
  return every(LOOK_INTERVAL_MS, look, { onError });
}

/** It begins with what ends from now on, or where one that somebody ended had come to. */
export async function startSweep(client: Client, taskQueue: string): Promise<void> {
  const workflowId = webhookSweepId(taskQueue);
  const endsFrom = await endOfLast(client, workflowId);
  if (endsFrom === null) return;
  const state: WebhookSweepState = { endsFrom, doubts: [] };
  try {
    await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, {
      ...{ workflowId, taskQueue, args: [state] },
      staticSummary: 'Finds what webhooks tell of',
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

/** Milliseconds; null where it runs. */
async function endOfLast(client: Client, workflowId: string): Promise<number | null> {
  try {
    const { status, closeTime } = await client.workflow.getHandle(workflowId).describe();
    return status.name === 'RUNNING' ? null : (closeTime ?? new Date()).getTime();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return Date.now();
    throw error;
  }
}

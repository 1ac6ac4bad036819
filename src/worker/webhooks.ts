/** Webhooks on a worker that has WEBHOOKS_FILE: their activities, and the workflow that finds the events. */
import { randomUUID } from 'node:crypto';
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { decodeFromPayloadsAtIndex } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { readWebhooksConfig, type WorkerConfig } from '../config.js';
import { DAY_MS } from '../contract/shared.js';
import {
  WEBHOOK_DELIVERY_WORKFLOW,
  WEBHOOK_SWEEP_WORKFLOW,
  webhookSweepId,
  type WebhookSweepState,
} from '../contract/webhooks.js';
import { createWebhookActivities } from '../activities/webhooks/activities.js';
import { Endpoints } from '../activities/webhooks/endpoints.js';
import { post, reasonOf, type Way } from '../activities/webhooks/post.js';
import { isOpen } from '../temporal/open-workflows.js';
import { every } from './every.js';
import type { Logger } from './logging.js';
import { countWebhookTry, type Figures } from './metrics.js';
import type { Shutdown } from './workers.js';

const LOOK_INTERVAL_MS = 60_000;

interface WebhooksOptions {
  config: WorkerConfig;
  figures: Figures;
  log: Logger;
  shutdown: Pick<Shutdown, 'signal' | 'onBegin'>;
}

/** The activities; null where the worker has no WEBHOOKS_FILE. A wrong one is told, and harms no job. */
export function openWebhooks({ config, figures, log, shutdown }: WebhooksOptions): object | null {
  const { webhooks, taskQueue, temporal } = config;
  if (webhooks === undefined) return null;
  const onProblem = (problem: string | null) => {
    figures.webhooksWrong.set(problem !== null || webhooks.problems.length > 0 ? 1 : 0);
    if (problem !== null) log.warn({ problem }, 'Webhooks have a wrong setting');
  };
  for (const problem of webhooks.problems) onProblem(problem);
  const endpoints = new Endpoints({ ...webhooks, onProblem });
  figures.lastLook.set(Date.now() / 1_000); // of a worker that never looks the alert shall be told, too
  // Not awaited: a disk that hangs holds no job up. What is wrong later is told, too, before somebody is to be told.
  const onError = (error: unknown) => onProblem((error as Error).message);
  shutdown.onBegin(every(LOOK_INTERVAL_MS, () => endpoints.all(), { onError }));
  return createWebhookActivities({
    ...{ taskQueue, endpoints, shutdownSignal: shutdown.signal },
    webUiUrl: webhooks.webUiUrl,
    address: temporal.address,
    onTry: (receiver, result) => countWebhookTry(figures, receiver, result),
    onLook: () => figures.lastLook.set(Date.now() / 1_000),
  });
}

/** The endpoints that the environment names; null where it names no file. Throws where a setting is wrong. */
export async function readEndpoints(): Promise<{ all: Awaited<ReturnType<Endpoints['all']>>; way: Way } | null> {
  const webhooks = readWebhooksConfig();
  if (webhooks === undefined) return null;
  const endpoints = new Endpoints(webhooks);
  const all = await endpoints.all();
  return { all, way: endpoints.way };
}

/** Sends one event `ping`, signed like any other, to each endpoint. Answers with what came back, by origin. */
export async function pingEndpoints({ all, way }: NonNullable<Awaited<ReturnType<typeof readEndpoints>>>) {
  const body = JSON.stringify({ type: 'ping', timestamp: new Date().toISOString(), data: {} });
  const ping = async (endpoint: (typeof all)[number]) => {
    const { origin } = endpoint.url;
    try {
      const { status } = await post({ endpoint, eventId: `evt_ping_${randomUUID()}`, body, way });
      return { isTaken: status >= 200 && status < 300, text: `${origin} answered ${status}` };
    } catch (error) {
      return { isTaken: false, text: `${origin}: ${reasonOf(error)}` };
    }
  };
  return Promise.all(all.map(ping));
}

const CALL_LIMIT_MS = 10_000;

/** Starts the sweep wherever it does not run; returns what stops that. */
export function keepSweeping(client: Client, taskQueue: string, log: Logger): () => void {
  const look = () => client.withDeadline(Date.now() + CALL_LIMIT_MS, () => startSweep(client, taskQueue));
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not start the workflow that finds events: tries again');
  return every(LOOK_INTERVAL_MS, look, { onError });
}

/** Starts it where one that was ended had come to. */
export async function startSweep(client: Client, taskQueue: string): Promise<void> {
  const workflowId = webhookSweepId(taskQueue);
  const last = await lastState(client, workflowId, taskQueue);
  if (last === 'runs') return;
  try {
    await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, {
      ...{ workflowId, taskQueue, args: [last] },
      staticSummary: 'Finds what webhooks tell of',
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

/** What the closed run of a sweep knew; null where webhooks are new. */
async function lastState(
  client: Client,
  workflowId: string,
  taskQueue: string,
): Promise<WebhookSweepState | 'runs' | null> {
  const handle = client.workflow.getHandle(workflowId);
  try {
    const { status, startTime } = await handle.describe();
    if (isOpen(status.name)) return 'runs';
    const { loadedDataConverter } = client.options;
    const states = statesIn(await handle.fetchHistory());
    const last = await decodeFromPayloadsAtIndex<WebhookSweepState | null>(loadedDataConverter, 0, states.slice(-1));
    return last ?? { endsFrom: startTime.getTime() };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return stateOfForgotten(client, taskQueue);
    throw error;
  }
}

/** A sweep that was deleted leaves its deliveries: the ends of a day are announced again, and refused if told. */
async function stateOfForgotten(client: Client, taskQueue: string): Promise<WebhookSweepState | null> {
  const endsFrom = Date.now() - DAY_MS;
  const isOwn = `TaskQueue = '${taskQueue.replaceAll("'", "''")}'`;
  const since = new Date(endsFrom).toISOString();
  const query = `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND ${isOwn} AND StartTime >= '${since}'`;
  for await (const _ of client.workflow.list({ query, pageSize: 1 })) return { endsFrom };
  return null;
}

/** The first, and each that a look came to: the workflow has no other activity. */
function statesIn({ events }: Awaited<ReturnType<WorkflowHandle['fetchHistory']>>): Payload[] {
  return (events ?? []).flatMap((event) => {
    const { workflowExecutionStartedEventAttributes: started, activityTaskCompletedEventAttributes: completed } = event;
    return (started?.input ?? completed?.result)?.payloads ?? [];
  });
}

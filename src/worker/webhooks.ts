/** Webhooks on a worker that has WEBHOOKS_FILE: their activities, and the workflow that finds the events. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { type Environment, readWebhooksConfig, type WorkerConfig } from '../config.js';
import { WEBHOOK_SWEEP_WORKFLOW, webhookSweepId, type WebhookSweepState } from '../contract/webhooks.js';
import { createWebhookActivities } from '../activities/webhooks/webhook-activities.js';
import { Endpoints } from '../activities/webhooks/endpoints.js';
import { isOpen } from '../temporal/visibility.js';
import { every, WATCH_EVERY_MS, WATCH_LIMIT_MS } from './every.js';
import type { Logger } from './logging.js';
import { countWebhookTry, type Meters } from './metrics.js';
import type { Shutdown } from './workers.js';

interface WebhooksOptions {
  config: WorkerConfig;
  meters: Meters;
  log: Logger;
  shutdown: Pick<Shutdown, 'signal' | 'onBegin'>;
}

/** The activities; null if the worker has no WEBHOOKS_FILE. A wrong one is logged, and harms no job. */
export function openWebhooks({ config, meters, log, shutdown }: WebhooksOptions): object | null {
  const { webhooks, taskQueue, temporal } = config;
  if (webhooks === undefined) return null;
  const onProblem = (problem: string | null) => {
    meters.webhooksWrong.set(problem !== null || webhooks.problems.length > 0 ? 1 : 0);
    if (problem !== null) log.warn({ problem }, 'Webhooks have a wrong setting');
  };
  const endpoints = new Endpoints({ ...webhooks, onProblem });
  const onSearch = () => meters.lastSearch.set(Date.now() / 1_000);
  onSearch(); // the alert also fires for a worker that never searches
  // Not awaited: a disk that hangs holds no job up.
  const onError = (error: unknown) => onProblem((error as Error).message);
  shutdown.onBegin(every(WATCH_EVERY_MS, () => endpoints.all(), { onError }));
  return createWebhookActivities({
    taskQueue,
    endpoints,
    onSearch,
    shutdownSignal: shutdown.signal,
    webUiUrl: webhooks.webUiUrl,
    address: temporal.address,
    onTry: (receiver, result) => countWebhookTry(meters, receiver, result),
  });
}

/** How many endpoints an environment names; null if it names no file. Throws if a setting is wrong. */
export async function countEndpoints(environment?: Environment): Promise<number | null> {
  const webhooks = readWebhooksConfig(environment);
  return webhooks === undefined ? null : (await new Endpoints(webhooks).all()).length;
}

/** Starts the sweep whenever it does not run; returns what stops that. */
export function keepSweeping(client: Client, taskQueue: string, log: Logger): () => void {
  const start = () => client.withDeadline(Date.now() + WATCH_LIMIT_MS, () => startSweep(client, taskQueue));
  const onError = (error: unknown) =>
    log.warn({ error }, 'Could not start the workflow that finds events: tries again');
  return every(WATCH_EVERY_MS, start, { onError });
}

/** Starts the sweep, unless it runs. It goes on from where a closed one was. */
export async function startSweep(client: Client, taskQueue: string): Promise<void> {
  const workflowId = webhookSweepId(taskQueue);
  const describing = client.workflow.getHandle(workflowId).describe();
  const last = await describing.catch((error: unknown) => {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  });
  if (last && isOpen(last.status.name)) return;
  const { endsFrom } = (last?.memo ?? {}) as Partial<WebhookSweepState>;
  await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, {
    workflowId,
    taskQueue,
    args: [last && { endsFrom: endsFrom ?? last.startTime.getTime() }],
    workflowIdConflictPolicy: 'USE_EXISTING',
    staticSummary: 'Finds the events of webhooks',
  });
}

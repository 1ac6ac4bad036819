import { createWebhookActivities } from '../../src/activities/webhooks/webhook-activities.js';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { webhookTaskQueue } from '../../src/contract/webhooks.js';
import { MAX_WEBHOOK_ACTIVITIES } from '../../src/worker/workers.js';
import type { TestServer } from '../support/dev-server.js';
import { createTestWorker, createWorker } from '../support/worker.js';
import type { Receiver } from './receiver.js';

type Dependencies = Parameters<typeof createWebhookActivities>[0];

interface WebhookWorkersOptions extends Pick<TestServer, 'nativeConnection' | 'taskQueue'> {
  receiver: Receiver;
  onTry?: Dependencies['onTry'];
  onSearch?: Dependencies['onSearch'];
}

/** Starts a worker of workflows, without a job's activities, and one of webhooks; answers with what ends them. */
export async function startWebhookWorkers(options: WebhookWorkersOptions): Promise<() => Promise<void>> {
  const { nativeConnection: connection, taskQueue } = options;
  const workflows = await createTestWorker({ connection, taskQueue, activities: {} });
  const running = workflows.run();
  const end = await startWebhookWorker(options);
  return async () => {
    workflows.shutdown();
    await Promise.all([running, end()]);
  };
}

/** Starts a worker of webhooks alone. */
export async function startWebhookWorker({
  nativeConnection: connection,
  taskQueue,
  receiver,
  onTry = () => {},
  onSearch = () => {},
}: WebhookWorkersOptions): Promise<() => Promise<void>> {
  const shutdown = new AbortController();
  const activities = createWebhookActivities({
    ...{ taskQueue, address: '', webUiUrl: 'http://ui', onTry, onSearch },
    endpoints: new Endpoints({ path: receiver.file, allowPrivate: true }),
    shutdownSignal: shutdown.signal,
  });
  const limit = { maxConcurrentActivityTaskExecutions: MAX_WEBHOOK_ACTIVITIES };
  const worker = await createWorker({ connection, taskQueue: webhookTaskQueue(taskQueue), activities, ...limit });
  const running = worker.run();
  return async () => {
    shutdown.abort();
    worker.shutdown();
    await running;
  };
}

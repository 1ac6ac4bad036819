import { setMaxListeners } from 'node:events';
import type { NativeConnection } from '@temporalio/worker';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import { HeldPolls } from '../../src/activities/agent-job/held-polls.js';
import { noMetrics } from './no-metrics.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { createTestWorker } from './worker.js';

/**
 * Starts a worker of jobs in this process, which costs a tenth of one of its own: for tests in which it matters only
 * that one is there. Answers with what ends it.
 */
export async function startJobsWorker(
  { nativeConnection: connection }: { nativeConnection: NativeConnection },
  taskQueue: string,
  { url: baseUrl, apiKey: adminApiKey }: { url: string; apiKey: string },
): Promise<() => Promise<void>> {
  const keys = createKeySource({ adminApiKey });
  const upstream = createUpstream({ baseUrl, keys, timeoutMs: 20_000, notTakenStatuses: [] });
  const shutdown = new AbortController();
  setMaxListeners(0, shutdown.signal); // as a worker's own has it: every read listens
  const heldPolls = new HeldPolls(shutdown.signal, noMetrics);
  const dependencies = { upstream, shutdownSignal: shutdown.signal, metrics: noMetrics, heldPolls };
  const worker = await createTestWorker({ connection, taskQueue, activities: createJobActivities(dependencies) });
  const running = worker.run();
  return async () => {
    shutdown.abort();
    worker.shutdown();
    await running;
    await heldPolls.ended();
    await upstream.close();
  };
}

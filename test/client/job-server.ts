import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { DataConverter } from '@temporalio/common';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import { noMetrics } from '../support/no-metrics.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { AgentJobs } from '../../src/starter.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { createTestWorker } from '../support/worker.js';

/** A dev server, the real worker and a sandbox upstream, with a project of one's own. */
export interface JobServer extends TestServer {
  jobs: AgentJobs;
  sandbox: Sandbox;
  projectId: string;
}

export async function startJobServer(given?: TestServer, dataConverter?: DataConverter): Promise<JobServer> {
  const server = given ?? (await connectDevServer());
  const { client, taskQueue, nativeConnection: connection } = server;
  await ensureSearchAttributes(client.connection, server.namespace);
  const sandbox = await startSandbox({ script: { activeMs: 300 } });
  const keys = createKeySource({ adminApiKey: sandbox.apiKey });
  // As a worker has it by default: what a busy machine answers later is in doubt, and its job waits for a person.
  const upstream = createUpstream({ baseUrl: sandbox.url, keys, timeoutMs: 20_000, notTakenStatuses: [] });
  const shutdown = new AbortController();
  setMaxListeners(0, shutdown.signal); // as a worker's own has it: every poll listens
  const activities = createJobActivities({
    upstream,
    shutdownSignal: shutdown.signal,
    metrics: noMetrics,
  });
  const worker = await createTestWorker({ connection, taskQueue, activities, ...(dataConverter && { dataConverter }) });
  const running = worker.run();
  return {
    ...server,
    jobs: new AgentJobs({ client, taskQueue }),
    sandbox,
    projectId: `project-${randomUUID()}`,
    async close() {
      shutdown.abort();
      worker.shutdown();
      await running;
      await upstream.close();
      await sandbox.close();
      await server.close();
    },
  };
}

/** Polls often and settles soon, so that a test need not wait. */
export const QUICK = { polling: { min: 1_000, max: 1_000 }, settle: 0 } as const;

/** All that an iteration yields. */
export async function gathered<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

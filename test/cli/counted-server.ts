/** A server of one's own, whose counter of billable actions counts everything that happens in the namespace. */
import { setTimeout as pause } from 'node:timers/promises';
import { readActionsByKind } from '../../bench/temporal.js';
import { createActivities, Poller } from '../../src/activities/index.js';
import { noMetrics } from '../support/no-metrics.js';
import { freePort } from '../../src/local/child-process.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { AgentJobs } from '../../src/starter.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { createTestWorker } from '../support/worker.js';

export type Actions = Record<string, number>;

export interface CountedServer {
  server: TestServer;
  sandbox: Sandbox;
  jobs: AgentJobs;
  /** By the server's own kinds, once the counter stands still: it lags behind. */
  settledActions(): Promise<Actions>;
  close(): Promise<void>;
}

/** Starts it with a worker that polls as one of production does. */
export async function startCountedServer(): Promise<CountedServer> {
  const cleanUp: (() => Promise<unknown>)[] = [];
  const metricsPort = await freePort();
  const devServer = await startPrivateDevServer({ metricsPort });
  cleanUp.unshift(() => devServer.stop());
  const server = await connectTo(devServer);
  cleanUp.unshift(() => server.close());
  const sandbox = await startSandbox();
  cleanUp.unshift(() => sandbox.close());
  const keys = createKeySource({ adminApiKey: sandbox.apiKey });
  const upstream = createUpstream({ baseUrl: sandbox.url, keys, timeoutMs: 20_000, notTakenStatuses: [] });
  cleanUp.unshift(() => upstream.close());
  const { nativeConnection: connection, taskQueue } = server;
  const shutdown = new AbortController();
  const poller = new Poller(shutdown.signal, noMetrics);
  const activities = createActivities({ upstream, shutdownSignal: shutdown.signal, metrics: noMetrics, poller });
  const worker = await createTestWorker({ connection, taskQueue, activities });
  const running = worker.run();
  cleanUp.unshift(async () => {
    shutdown.abort();
    worker.shutdown();
    await running;
    await poller.ended();
  });
  return {
    server,
    sandbox,
    jobs: new AgentJobs({ client: server.client, taskQueue }),
    settledActions: () => settledActions(`http://127.0.0.1:${metricsPort}/metrics`, devServer.namespace),
    async close() {
      for (const step of cleanUp) await step();
    },
  };
}

async function settledActions(metricsUrl: string, namespace: string): Promise<Actions> {
  for (let before = ''; ; await pause(5_000)) {
    const now = await readActionsByKind(metricsUrl, namespace);
    if (JSON.stringify(now) === before) return now;
    before = JSON.stringify(now);
  }
}

export const totalOf = (actions: Actions) => Object.values(actions).reduce((sum, count) => sum + count, 0);

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentJobs, type JobHandle } from '../../src/starter.js';
import { loadWorkflowBundle } from '../../src/temporal/workflow-bundle.js';
import { SANDBOX_API_KEY, startSandbox, type Sandbox } from '../../src/testing.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { WorkerFleet } from './worker-fleet.js';

/** Half of them are in the cache of the worker that is killed. */
const JOBS = 10;
/** Longer than the server waits for a dead worker to answer a query, so that the timer fires meanwhile. */
const LINGER = '20 seconds';

let folder: string;
let server: TestServer;
let upstream: Sandbox;
let fleet: WorkerFleet;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  server = await connectDevServer();
  upstream = await startSandbox({ script: { activeMs: 100 } });
  fleet = new WorkerFleet({
    workers: 2,
    folder,
    env: {
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: server.namespace,
      AGENT_JOBS_TASK_QUEUE: server.taskQueue,
      UPSTREAM_BASE_URL: upstream.url,
      ADMIN_API_KEY: SANDBOX_API_KEY,
      LOG_LEVEL: 'error',
    },
    workerFault: null,
  });
});

afterAll(async () => {
  await fleet?.close();
  await upstream?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

async function untilLingering(job: JobHandle): Promise<void> {
  await expect.poll(async () => (await job.state({ timeoutMs: 30_000 })).phase).toBe('lingering');
}

/** As a service does that shows its jobs: again and again, whichever worker answers. */
async function askUntil(over: AbortSignal, job: JobHandle): Promise<void> {
  while (!over.aborted) {
    await job.state({ timeoutMs: 20_000 }).catch(() => {});
    await pause(200);
  }
}

/** What came of replaying each, by one worker. */
async function replay(jobs: readonly JobHandle[]): Promise<string[]> {
  const histories = jobs.map(async ({ workflowId }) => ({
    workflowId,
    history: await server.client.workflow.getHandle(workflowId).fetchHistory(),
  }));
  const results = Worker.runReplayHistories(loadWorkflowBundle(), await Promise.all(histories));
  const told: string[] = [];
  for await (const { error } of results) told.push(error === undefined ? 'replays' : String(error));
  return told;
}

test('a run that is asked for its state right after its worker was killed can still be replayed', async () => {
  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const options = { projectId: 'p1', prompt: 'Mend it', settle: 0, linger: LINGER, polling: { min: '1 second' } };
  const all = await Promise.all(
    Array.from({ length: JOBS }, (_, number) =>
      jobs.start({ key: `${server.taskQueue}-${number}`, ...options }, { timeoutMs: 60_000 }),
    ),
  );
  await Promise.all(all.map(untilLingering));
  expect(fleet.kill(0)).toBe(true);
  const over = new AbortController();
  const asking = all.map((job) => askUntil(over.signal, job));
  const results = await Promise.all(all.map((job) => job.result({ signal: AbortSignal.timeout(100_000) })));
  over.abort();
  await Promise.all(asking);
  expect(results.map(({ outcome }) => outcome)).toEqual(all.map(() => 'completed'));
  expect(await replay(all)).toEqual(all.map(() => 'replays'));
}, 200_000);

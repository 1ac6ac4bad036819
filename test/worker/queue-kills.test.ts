/** Workers and Temporal, killed while jobs wait for their turn, and while turns are given and used. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { jobStateQuery, resolveUnknownUpdate, type Priority } from '../../src/contract.js';
import type { agentJob } from '../../src/workflows/index.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { startFileTemporal } from '../chaos/temporal-server.js';
import { connectDevServer, connectTo, type TestServer } from '../support/dev-server.js';
import { ProjectQueue } from '../support/project-queue.js';
import { shared } from '../support/shared.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';

const PATIENCE = { timeout: 120_000, interval: 250 };

const HOUR = 3_600_000;

let server: TestServer;
let sandbox: Sandbox;
let worker: WorkerProcess;

beforeAll(async () => {
  server = await connectDevServer();
  sandbox = await startSandbox({ script: { activeMs: 0 } });
});
afterAll(async () => {
  await worker?.kill();
  await sandbox.close();
  await server.close();
});

async function startWorker({ address, taskQueue }: { address: string; taskQueue: string }): Promise<void> {
  await worker?.kill();
  worker = startWorkerProcess({
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    TEMPORAL_ADDRESS: address,
    AGENT_JOBS_TASK_QUEUE: taskQueue,
    CREATES_PER_HOUR: '4',
  });
  await worker.wrote('The worker runs');
}

function startJobs({ client, taskQueue }: TestServer, projectId: string, prompts: readonly string[]) {
  const start = (prompt: string, index: number) =>
    client.workflow.start<typeof agentJob>('agentJob', {
      taskQueue,
      workflowId: `agent-job/test/${randomUUID()}`,
      args: [{ projectId, prompt, priority: (index + 1) as Priority }],
    });
  return Promise.all(prompts.map(start));
}

test(
  'a worker that is killed while jobs wait, and one that is killed with a turn, cost no job and double none',
  { timeout: 360_000 },
  async () => {
    const projectId = `p ${randomUUID()}`;
    const { client, taskQueue } = server;
    const queue = new ProjectQueue(client, taskQueue, projectId);
    // All of the budget but one is used for an hour.
    await queue.usedUp(3, HOUR);
    await queue.usedUp(1, 90_000);
    await queue.report({ outcome: 'unsent', perHour: 4 });
    await startWorker(server);
    const jobs = await startJobs(server, projectId, ['first', 'second', 'third']);
    await expect.poll(async () => (await queue.state()).waitingCount, PATIENCE).toBe(3);
    await worker.kill();
    // The upstream takes the first create, and its answer never comes.
    await sandbox.addFault({ kind: 'hang', effect: 'after', operation: 'create', projectId, count: 1 });
    await startWorker(server);
    await expect.poll(async () => (await sandbox.creates({ projectId })).length, PATIENCE).toBe(1);
    await worker.kill();
    await startWorker(server);
    const [first, ...others] = jobs as [(typeof jobs)[0], ...typeof jobs];
    const stateOf = (job: typeof first) => job.query(jobStateQuery);
    await expect.poll(async () => (await stateOf(first)).phase, PATIENCE).toBe('needsAttention');
    const [created] = await sandbox.creates({ projectId });
    await first.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'adopt', jobId: created!.id }] });
    expect(await first.result()).toMatchObject({ outcome: 'completed', jobId: created!.id });
    // The turn that the killed worker had counts as used: the others wait in their order.
    await expect
      .poll(queue.state.bind(queue), PATIENCE)
      .toMatchObject({ waitingCount: 2, inFlight: 0, spentLastHour: 4 });
    expect((await queue.state()).waiting.map(({ workflowId }) => workflowId)).toEqual(
      others.map(({ workflowId }) => workflowId),
    );
    expect(await sandbox.creates({ projectId })).toHaveLength(1);
    // The budget that is set is the worker's to tell; one that is told later by hand holds.
    await queue.report({ outcome: 'unsent', perHour: 100 });
    for (const job of others) expect(await job.result()).toMatchObject({ outcome: 'completed' });
    expect(await sandbox.creates({ projectId })).toHaveLength(3);
    await queue.handle.terminate();
  },
);

test(
  'Temporal that is killed while jobs wait and while turns are given costs no job and doubles none',
  { timeout: 360_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
    const temporal = await startFileTemporal((await shared('dev-server-program')).path, folder);
    const own = await connectTo(temporal);
    const projectId = `p ${randomUUID()}`;
    try {
      const queue = new ProjectQueue(own.client, own.taskQueue, projectId);
      await startWorker(own);
      await queue.usedUp(4, 60_000);
      const prompts = ['first', 'second', 'third', 'fourth'];
      const jobs = await startJobs(own, projectId, prompts);
      await expect.poll(async () => (await queue.state()).waitingCount, PATIENCE).toBe(4);
      await temporal.restart(1_000);
      await expect.poll(async () => (await sandbox.creates({ projectId })).length, PATIENCE).toBeGreaterThan(0);
      await temporal.restart(0);
      for (const [i, job] of jobs.entries()) {
        await expect.poll(() => settled(job, projectId, prompts[i]!), PATIENCE).toBe('done');
        expect(await job.result()).toMatchObject({ outcome: 'completed' });
      }
      const creates = await sandbox.creates({ projectId });
      expect(creates.map(({ prompt }) => prompt).toSorted()).toEqual(prompts.toSorted());
      await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ waitingCount: 0, inFlight: 0 });
    } finally {
      await worker.kill();
      await own.close();
      await temporal.close();
      await rm(folder, { recursive: true, force: true });
    }
  },
);

/** Its phase, after a person has looked upstream where it asks for one. */
async function settled(job: WorkflowHandle<typeof agentJob>, projectId: string, prompt: string): Promise<string> {
  const { phase, unknown } = await job.query(jobStateQuery);
  if (!unknown) return phase;
  const [created] = await sandbox.creates({ projectId, promptIncludes: prompt });
  const resolution = created ? ({ action: 'adopt', jobId: created.id } as const) : ({ action: 'retry' } as const);
  await job.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
  return 'settled';
}

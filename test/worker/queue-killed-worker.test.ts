/** Workers that are killed while jobs wait for their turn, and while one uses its turn. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import type { agentJob } from '../../src/workflows/index.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { ProjectQueue } from '../support/project-queue.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';

const PATIENCE = { timeout: 120_000, interval: 250 };

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

async function startWorker(): Promise<void> {
  worker = startWorkerProcess({
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_TASK_QUEUE: server.taskQueue,
    CREATES_PER_HOUR: '4',
  });
  await worker.wrote('The worker runs');
}

test(
  'a worker that is killed while jobs wait, and one that is killed with a turn in its hands, cost no job and double none',
  { timeout: 360_000 },
  async () => {
    const projectId = `p ${randomUUID()}`;
    const { client, taskQueue } = server;
    const queue = new ProjectQueue(client, taskQueue, projectId);
    // All of the budget but one is used for an hour.
    await queue.usedUp(3, 3_600_000);
    await queue.usedUp(1, 45_000);
    await queue.report({ outcome: 'unsent', perHour: 4 });
    await startWorker();
    const jobs = await Promise.all(
      ['first', 'second', 'third'].map((prompt, i) =>
        client.workflow.start<typeof agentJob>('agentJob', {
          taskQueue,
          workflowId: `agent-job/test/${randomUUID()}`,
          args: [{ projectId, prompt, priority: (i + 1) as 1 | 2 | 3 }],
        }),
      ),
    );
    await expect.poll(async () => (await queue.state()).waitingCount, PATIENCE).toBe(3);
    await worker.kill();
    // The upstream takes the first create, and its answer never comes.
    await sandbox.addFault({ kind: 'hang', effect: 'after', operation: 'create', projectId, count: 1 });
    await startWorker();
    await expect.poll(async () => (await sandbox.creates({ projectId })).length, PATIENCE).toBe(1);
    await worker.kill();
    await startWorker();
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

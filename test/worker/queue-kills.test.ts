/** Workers and Temporal, killed while jobs wait for their turn, and while turns are given and used. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { jobStateQuery, resolveUnknownUpdate, type Priority } from '../../src/contract.js';
import type { agentJob } from '../../src/workflows/index.js';
import { startSandbox } from '../../src/testing.js';
import { startFileTemporal } from '../chaos/temporal-server.js';
import { connectDevServer, connectTo, type TestServer } from '../support/dev-server.js';
import { ProjectQueue } from '../support/project-queue.js';
import { shared } from '../support/shared.js';
import { startWorkerProcess, workerEnv, type WorkerProcess } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

/** Not `expect.poll`, which does not know its test if several run at once. */
const PATIENCE = { timeout: 120_000, interval: 500 };

const HOUR = 3_600_000;

const server = useForFile(connectDevServer);
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 0 } }));
const workers: WorkerProcess[] = [];

afterAll(async () => {
  for (const worker of workers) await worker.kill();
});

async function startWorker(at: TestServer, perHour = 4): Promise<WorkerProcess> {
  const worker = startWorkerProcess({
    ...workerEnv(at, sandbox),
    CREATES_PER_HOUR: String(perHour),
  });
  workers.push(worker);
  await worker.wrote('The worker runs');
  return worker;
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

// Both wait for most of their time.
describe.concurrent('kills', { timeout: 360_000 }, () => {
  test('workers that are killed while jobs wait, or with a turn, cost no job and double none', async () => {
    const projectId = `p ${randomUUID()}`;
    const { client, taskQueue } = server;
    const queue = new ProjectQueue(client, taskQueue, projectId);
    await queue.usedUp(4, HOUR);
    const first = await startWorker(server);
    const jobs = await startJobs(server, projectId, ['first', 'second', 'third']);
    await vi.waitFor(async () => expect((await queue.state()).waitingCount).toBe(3), PATIENCE);
    // An attempt that were still open would join once more, and leave a place when its job is done.
    for (const job of jobs) await vi.waitFor(async () => expect(await waitingOf(job)).toBe('turn'), PATIENCE);
    await first.kill();
    // The upstream takes the first create, and its answer never comes.
    await sandbox.addFault({ kind: 'hang', effect: 'after', operation: 'create', projectId, count: 1 });
    // Its budget has room for one more, which it says to the queue as it starts.
    const second = await startWorker(server, 5);
    const creates = () => sandbox.creates({ projectId });
    await vi.waitFor(async () => expect(await creates()).toHaveLength(1), PATIENCE);
    await second.kill();
    await startWorker(server, 5);
    const [asked, ...others] = jobs as [(typeof jobs)[0], ...typeof jobs];
    const phase = async () => (await asked.query(jobStateQuery)).phase;
    await vi.waitFor(async () => expect(await phase()).toBe('needsAttention'), PATIENCE);
    const [created] = await creates();
    await asked.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'adopt', jobId: created!.id }] });
    expect(await asked.result()).toMatchObject({ outcome: 'completed', jobId: created!.id });
    // The turn that the killed worker had counts as used: the others wait in their order.
    const spent = { waitingCount: 2, inFlight: 0, spentLastHour: 5 };
    await vi.waitFor(async () => expect(await queue.state()).toMatchObject(spent), PATIENCE);
    expect((await queue.state()).waiting.map(({ workflowId }) => workflowId)).toEqual(
      others.map(({ workflowId }) => workflowId),
    );
    expect(await creates()).toHaveLength(1);
    // The worker reports the budget that is set. A later report by hand wins.
    await queue.report({ outcome: 'unsent', perHour: 100 });
    for (const job of others) expect(await job.result()).toMatchObject({ outcome: 'completed' });
    expect(await creates()).toHaveLength(3);
    await queue.handle.terminate();
  });

  test('Temporal that is killed while jobs wait and while turns are given costs no job and doubles none', async () => {
    const folder = newFolder();
    const temporal = await startFileTemporal((await shared('dev-server-program')).path, folder);
    const own = await connectTo(temporal);
    const projectId = `p ${randomUUID()}`;
    const worker = await startWorker(own);
    try {
      const queue = new ProjectQueue(own.client, own.taskQueue, projectId);
      await queue.usedUp(4, 60_000);
      const prompts = ['first', 'second', 'third', 'fourth'];
      const jobs = await startJobs(own, projectId, prompts);
      await vi.waitFor(async () => expect((await queue.state()).waitingCount).toBe(4), PATIENCE);
      await temporal.restart(1_000);
      const count = async () => (await sandbox.creates({ projectId })).length;
      await vi.waitFor(async () => expect(await count()).toBeGreaterThan(0), PATIENCE);
      await temporal.restart(0);
      for (const [i, job] of jobs.entries()) {
        const isDone = async () => expect(await settled(job, projectId, prompts[i]!)).toBe('done');
        await vi.waitFor(isDone, PATIENCE);
        expect(await job.result()).toMatchObject({ outcome: 'completed' });
      }
      const creates = await sandbox.creates({ projectId });
      expect(creates.map(({ prompt }) => prompt).toSorted()).toEqual(prompts.toSorted());
      const isIdle = async () => expect(await queue.state()).toMatchObject({ waitingCount: 0, inFlight: 0 });
      await vi.waitFor(isIdle, PATIENCE);
    } finally {
      await worker.kill();
      await own.close();
      await temporal.close();
    }
  });
});

async function waitingOf(job: WorkflowHandle<typeof agentJob>): Promise<string | undefined> {
  return (await job.query(jobStateQuery)).waiting?.for;
}

/** Its phase, after a person has checked upstream if it asks for one. */
async function settled(job: WorkflowHandle<typeof agentJob>, projectId: string, prompt: string): Promise<string> {
  const { phase, unknown } = await job.query(jobStateQuery);
  if (!unknown) return phase;
  const [created] = await sandbox.creates({ projectId, promptIncludes: prompt });
  const resolution = created ? ({ action: 'adopt', jobId: created.id } as const) : ({ action: 'retry' } as const);
  await job.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
  return 'settled';
}

import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { JobCanceledError, type AgentJobResult } from '../../src/starter.js';
import { inputHash } from '../../src/agent-job/input.js';
import { createTestWorker } from '../support/worker.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';
import type { BuildReleaseInput, buildRelease } from './parent-workflows/build-release.js';

const workflowsPath = fileURLToPath(new URL('./parent-workflows/index.ts', import.meta.url));

let server: JobServer;
let parentWorker: Worker;
let running: Promise<void>;
const parentTaskQueue = `release-${randomUUID()}`;

beforeAll(async () => {
  server = await startJobServer();
  parentWorker = await createTestWorker({
    connection: server.nativeConnection,
    taskQueue: parentTaskQueue,
    workflowsPath,
    activities: {},
  });
  running = parentWorker.run();
});
afterAll(async () => {
  parentWorker.shutdown();
  await running;
  await server.close();
});

async function startParent({ prompt, ...rest }: Partial<BuildReleaseInput> & { prompt: string }) {
  const key = randomUUID();
  const job = { projectId: server.projectId, prompt, ...QUICK };
  const parent = await server.client.workflow.start<typeof buildRelease>('buildRelease', {
    workflowId: `release-${key}`,
    taskQueue: parentTaskQueue,
    args: [{ job, key, jobsTaskQueue: server.taskQueue, abandon: false, ...rest }],
  });
  return { parent, job: server.jobs.handle({ projectId: server.projectId, key }), key };
}

test('a parent in another worker has a job done as its child, which says what it is as any other job', async () => {
  const { parent, job } = await startParent({ prompt: 'Write the release notes' });
  expect(((await parent.result()) as AgentJobResult).outcome).toBe('completed');
  const run = await server.client.workflow.getHandle(job.workflowId).describe();
  expect(run.memo).toMatchObject({
    inputHash: inputHash({ projectId: server.projectId, prompt: 'Write the release notes' }),
  });
  expect(await run.staticSummary()).toBe(`${server.projectId}: Write the release notes`);
  expect(run.priority).toMatchObject({ priorityKey: 3, fairnessKey: server.projectId });
});

test('a child that is abandoned outlives its parent, and our client finds it by its key', async () => {
  const { parent, job, key } = await startParent({ prompt: 'Outlive me', abandon: true });
  expect(await parent.result()).toBe(job.workflowId);
  const same = await server.jobs.start({ projectId: server.projectId, key, prompt: 'Outlive me' });
  expect((await same.result()).outcome).toBe('completed');
  expect(await server.sandbox.creates({ projectId: server.projectId, promptIncludes: 'Outlive me' })).toHaveLength(1);
});

test('a parent that is cancelled cancels its child, and the remote job goes on', async () => {
  await server.sandbox.addScript({ promptIncludes: 'Never end', script: { activeMs: 3_600_000 } });
  const { parent, job } = await startParent({ prompt: 'Never end' });
  await expect.poll(async () => (await job.state()).phase).toBe('watching');
  await parent.cancel();
  await expect(parent.result()).rejects.toThrow('cancelled');
  const canceled = await job.result().catch((error: unknown) => error);
  expect(canceled).toBeInstanceOf(JobCanceledError);
  const created = await server.sandbox.creates({ promptIncludes: 'Never end' });
  expect(created.map(({ id }) => id)).toEqual([(canceled as JobCanceledError).jobId]);
});

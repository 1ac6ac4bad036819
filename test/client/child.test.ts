import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AgentJobResult } from '../../src/starter.js';
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

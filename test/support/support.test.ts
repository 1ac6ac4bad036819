import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { connectDevServer, connectTo, startPrivateDevServer } from './dev-server.js';
import { startTimeSkipping } from './time-skipping.js';
import { createTestWorker } from './worker.js';

const workflowsPath = fileURLToPath(new URL('./echo-workflow.ts', import.meta.url));
const activities = { shout: async (text: string) => `${text}!` };
const DAY_MS = 86_400_000;

test('a workflow runs on the dev server that the test run shares', async () => {
  const server = await connectDevServer();
  const { client, taskQueue, nativeConnection: connection } = server;
  try {
    const worker = await createTestWorker({ connection, taskQueue, activities, workflowsPath });
    const result = await worker.runUntil(
      client.workflow.execute('echo', { taskQueue, workflowId: randomUUID(), args: ['hello', 60] }),
    );
    expect(result).toBe('hello!');
  } finally {
    await server.close();
  }
});

test('a day passes in an instant on the time-skipping server', async () => {
  const environment = await startTimeSkipping();
  try {
    const taskQueue = randomUUID();
    const { nativeConnection: connection, client } = environment;
    const worker = await createTestWorker({ connection, taskQueue, activities, workflowsPath });
    const before = await environment.currentTimeMs();
    const result = await worker.runUntil(
      client.workflow.execute('echo', { taskQueue, workflowId: randomUUID(), args: ['hello', DAY_MS] }),
    );
    expect(result).toBe('hello!');
    expect(await environment.currentTimeMs()).toBeGreaterThanOrEqual(before + DAY_MS);
  } finally {
    await environment.teardown();
  }
});

test('a private dev server is another one than the shared one, and gone when stopped', async () => {
  const own = await startPrivateDevServer();
  const server = await connectTo(own);
  const sharedServer = await connectDevServer();
  expect(own.address).not.toBe(sharedServer.address);
  await server.close();
  await sharedServer.close();
  await own.stop();
  expect(() => process.kill(own.pid, 0)).toThrow();
});

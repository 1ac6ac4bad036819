import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { expect, test, vi } from 'vitest';
import { connectDevServer, connectTo, startPrivateDevServer } from './dev-server.js';
import { gate } from './observed-upstream.js';
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

test('the time-skipping server loses no task that cancels an activity whose result comes meanwhile', async () => {
  const environment = await startTimeSkipping();
  try {
    const taskQueue = randomUUID();
    const { nativeConnection: connection, client } = environment;
    const begun = gate();
    const ended = gate();
    const hold = () => {
      begun.open();
      return ended.opened;
    };
    // A thread of its own: the activity's result comes while the workflow is busy.
    const options = { connection, taskQueue, activities: { hold }, workflowsPath, debugMode: false };
    const worker = await createTestWorker(options);
    const result = worker.runUntil(async () => {
      const handle = await client.workflow.start('cutShort', { taskQueue, workflowId: randomUUID() });
      await begun.opened;
      await handle.signal('cut');
      const { workflowService: service, options } = client;
      const execution = { workflowId: handle.workflowId };
      await vi.waitFor(
        async () => {
          const page = await service.getWorkflowExecutionHistory({ namespace: options.namespace, execution });
          const begunTasks = page.history!.events!.filter((event) => event.workflowTaskStartedEventAttributes);
          expect(begunTasks).toHaveLength(2);
        },
        { timeout: 120_000, interval: 20 },
      );
      ended.open();
      return handle.result();
    });
    expect(await result).toBe('cut short');
  } finally {
    await environment.teardown();
  }
});

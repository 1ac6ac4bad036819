import { expect, test } from 'vitest';
import { jobStateQuery } from '../../src/contract.js';
import { inDoubt } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { startJobBench } from '../support/job-bench.js';
import { createTestWorker } from '../support/worker.js';

const { server, upstream } = useDevServer();
const WAIT_MS = 3_000;
/** Takes the workflow's tasks and leaves its activities in the queue. */
const NO_ACTIVITIES = { activities: undefined as unknown as object };

test('a write that waited before it was sent may be looked for half a minute after it was judged', async () => {
  const taskQueue = 'no-activities-yet';
  const connection = server.nativeConnection;
  const workflows = await createTestWorker({ connection, taskQueue, ...NO_ACTIVITIES });
  const handle = await workflows.runUntil(async () => {
    const started = await server.client.workflow.start('agentJob', {
      taskQueue,
      workflowId: taskQueue,
      args: [{ projectId: 'p1', prompt: 'Fix it' }],
    });
    await expect.poll(async () => (await started.describe()).raw.pendingActivities?.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    return started;
  });
  upstream.createFaults.push(inDoubt('no answer'));
  const bench = await startJobBench(server, upstream, { taskQueue });
  const unknown = async () => (await handle.query(jobStateQuery)).unknown;
  await expect.poll(unknown).not.toBeNull();
  const { since, lookAfter } = (await unknown())!;
  await handle.terminate();
  await bench.stop();
  expect(Date.parse(lookAfter) - Date.parse(since)).toBeGreaterThanOrEqual(30_000);
});

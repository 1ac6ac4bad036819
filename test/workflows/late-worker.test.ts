import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW } from '../../src/contract.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { notDelivered } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';

const tests = useDevServer();
const benches: JobBench[] = [];
afterEach(async () => {
  for (const bench of benches.splice(0)) await bench.stop();
});

test('a create that never left, whose deadline passed while no worker ran, is not sent by the next one', async () => {
  const { server, upstream } = tests;
  upstream.createFaults.push(...Array.from({ length: 4 }, () => notDelivered('connection refused')));
  const taskQueue = `test-${randomUUID()}`;
  const first = await startJobBench(server, upstream, { taskQueue });
  const handle = await server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    taskQueue,
    workflowId: `agent-job/test/${randomUUID()}`,
    args: [{ projectId: 'p1', prompt: 'Fix it', deadline: '10 seconds' }],
  });
  // The fourth send follows four seconds after the third.
  await expect.poll(() => upstream.created.length, { timeout: 15_000 }).toBeGreaterThanOrEqual(3);
  await first.stop();
  await sleep(10_000);
  upstream.createFaults.length = 0;
  benches.push(await startJobBench(server, upstream, { taskQueue }));
  expect(await handle.result()).toMatchObject({ outcome: 'timedOut', jobId: null });
}, 60_000);

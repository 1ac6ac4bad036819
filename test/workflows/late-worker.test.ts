import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW } from '../../src/contract.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { notDelivered } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';

const { server, upstream } = useDevServer();
const benches: JobBench[] = [];
afterEach(async () => {
  for (const bench of benches.splice(0)) await bench.stop();
});

/** Starts a job whose create never leaves, and stops its worker while it waits; null if that came too late. */
async function leaveWaiting(deadlineMs: number) {
  upstream.created.length = 0;
  upstream.createFaults.push(...Array.from({ length: 4 }, () => notDelivered('connection refused')));
  const taskQueue = `test-${randomUUID()}`;
  const first = await startJobBench(server, upstream, { taskQueue });
  const handle = await server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    taskQueue,
    workflowId: `agent-job/test/${randomUUID()}`,
    args: [{ projectId: 'p1', prompt: 'Fix it', deadline: deadlineMs }],
  });
  const deadlineAt = Date.now() + deadlineMs;
  // The fourth send follows four seconds after the third.
  const hasSent = () => upstream.created.length >= 3;
  await expect.poll(() => hasSent() || Date.now() > deadlineAt).toBe(true);
  const isInTime = hasSent() && Date.now() + 4_000 < deadlineAt;
  await first.stop();
  return isInTime && Date.now() < deadlineAt ? { taskQueue, handle, deadlineAt } : null;
}

test('a create that never left, whose deadline passed while no worker ran, is not sent by the next one', async () => {
  // A busy machine needs longer to stop the worker before the deadline.
  const left = (await leaveWaiting(10_000)) ?? (await leaveWaiting(40_000));
  expect(left).not.toBeNull();
  if (!left) return;
  await sleep(left.deadlineAt + 1_000 - Date.now());
  upstream.createFaults.length = 0;
  benches.push(await startJobBench(server, upstream, { taskQueue: left.taskQueue }));
  expect(await left.handle.result()).toMatchObject({ outcome: 'timedOut', jobId: null });
});

import { randomUUID } from 'node:crypto';
import { ApplicationFailure } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import { noMetrics } from '../support/no-metrics.js';
import type { agentJob } from '../../src/workflows/index.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { startTimeSkipping } from '../support/time-skipping.js';
import { createTestWorker } from '../support/worker.js';

let environment: TestWorkflowEnvironment;
beforeAll(async () => {
  environment = await startTimeSkipping();
});
afterAll(() => environment.teardown());

/** A poll that never comes to its end by itself. */
function stuck(type: string): Promise<never> {
  const failure = ApplicationFailure.create({ message: 'next look later', type, nextRetryDelay: '6 hours' });
  return Promise.reject(failure);
}

test.each([
  ['waits', 'StillPolling'],
  ['fails', 'Bug'],
])('a poll that for ever %s is ended, and another one reads the job', async (_, type) => {
  const { client, nativeConnection: connection } = environment;
  const upstream = new ScriptedUpstream();
  const { signal: shutdownSignal } = new AbortController();
  const real = createJobActivities({ upstream, shutdownSignal, metrics: noMetrics });
  let attempts = 0;
  const pollJob: typeof real.pollJob = (input) => ((attempts += 1) <= 30 ? stuck(type) : real.pollJob(input));
  const taskQueue = `test-${randomUUID()}`;
  const worker = await createTestWorker({ connection, taskQueue, activities: { ...real, pollJob } });
  await worker.runUntil(async () => {
    const handle = await client.workflow.start<typeof agentJob>('agentJob', {
      taskQueue,
      workflowId: `agent-job/test/${randomUUID()}`,
      args: [{ projectId: 'p1', jobId: 'job-1', deadline: '3650 days' }],
      workflowExecutionTimeout: '4000 days',
    });
    expect(await handle.result()).toMatchObject({ outcome: 'completed' });
    const { events } = await handle.fetchHistory();
    const scheduled = events!.filter((e) => e.activityTaskScheduledEventAttributes?.activityType?.name === 'pollJob');
    expect(scheduled.length).toBeGreaterThan(1);
    expect(upstream.reads).toBe(1);
  });
});

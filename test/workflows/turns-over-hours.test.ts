/** What hours of waiting for a turn cost, and what a job does whose queue is gone. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { billableActions } from '../support/billable-actions.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ObservedUpstream } from '../support/observed-upstream.js';
import { ProjectQueue } from '../support/project-queue.js';
import { startTimeSkipping } from '../support/time-skipping.js';

const HOUR = 3_600_000;
const PATIENCE = { timeout: 120_000, interval: 100 };

let environment: TestWorkflowEnvironment;
let upstream: ObservedUpstream;
let bench: JobBench;
let projectId: string;
let queue: ProjectQueue;

beforeEach(async () => {
  environment = await startTimeSkipping();
  upstream = new ObservedUpstream();
  bench = await startJobBench(environment, upstream, { budgets: { createsPerHour: 1 } });
  projectId = `p ${randomUUID()}`;
  queue = new ProjectQueue(environment.client, bench.taskQueue, projectId);
});
afterEach(async () => {
  await bench.stop();
  await environment.teardown();
});

const now = () => environment.currentTimeMs();
const eventsOf = async (handle: WorkflowHandle) => (await handle.fetchHistory()).events!;

async function startWaiting(prompt: string) {
  const handle = await bench.start({ projectId, prompt });
  await expect.poll(() => queue.placeOf(handle.workflowId), PATIENCE).not.toBeNull();
  return handle;
}

/** The events of a history once it grows no more. */
async function settledCount(handle: WorkflowHandle): Promise<number> {
  for (let before = -1; ;) {
    const { length: count } = await eventsOf(handle);
    if (count === before) return count;
    before = count;
    await new Promise((done) => setTimeout(done, 500));
  }
}

test('a job that waits asks again every 13 to 20 minutes, for 12 events and 4 actions', async () => {
  await queue.usedUp(1, HOUR, await now());
  const handle = await startWaiting('Fix it');
  const joined = await settledCount(handle);
  const actions = billableActions(await eventsOf(handle));
  await environment.sleep('58 minutes');
  const grown = (await settledCount(handle)) - joined;
  expect(grown).toBeGreaterThanOrEqual(2 * 11);
  expect(grown).toBeLessThanOrEqual(4 * 12);
  const asked = billableActions(await eventsOf(handle)) - actions;
  expect(asked).toBeLessThanOrEqual(4 * 4);
  expect(await queue.placeOf(handle.workflowId)).toMatchObject({ position: 1 });
  expect(upstream.created).toEqual([]);
});

test('those whose queue is terminated ask again within 20 minutes, and none is lost or doubled', async () => {
  await queue.usedUp(1, HOUR, await now());
  const jobs: WorkflowHandle[] = [];
  for (const prompt of ['first', 'second', 'third']) jobs.push(await startWaiting(prompt));
  for (const job of jobs) await settledCount(job);
  await queue.handle.terminate();
  await environment.sleep('21 minutes');
  // What the queue knew is forgotten: one goes, and the others wait in the next queue.
  expect(upstream.created).toHaveLength(1);
  expect(await queue.state()).toMatchObject({ waitingCount: 2 });
  await environment.sleep('2.5 hours');
  expect(upstream.created.toSorted()).toEqual(['first', 'second', 'third']);
  for (const job of jobs) expect(await job.result()).toMatchObject({ outcome: 'completed' });
});

/** What hours of waiting for a turn cost, and what a job does whose queue is gone. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { billableActions, countActions } from '../support/billable-actions.js';
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

test('while a job waits for its turn, its history does not grow', async () => {
  await queue.usedUp(1, HOUR, await now());
  const handle = await startWaiting('Fix it');
  const joined = await settledCount(handle);
  await environment.sleep('58 minutes');
  expect(await settledCount(handle)).toBe(joined);
  expect(upstream.created).toEqual([]);
  await environment.sleep('5 minutes');
  expect(upstream.created).toEqual(['Fix it']);
});

test('a wait of hours costs at most 20 events and 6 actions, and the report of its turn', async () => {
  const quiet = await startJobBench(environment, upstream);
  const lone = await quiet.start({ projectId: `p ${randomUUID()}`, prompt: 'alone' });
  await lone.result();
  const alone = await eventsOf(lone);
  expect(countActions(alone)).toMatchObject({ queueMessages: 0, turnReports: 0, signals: 0, timers: 0 });
  await quiet.stop();
  await queue.usedUp(1, HOUR, await now());
  const waited: WorkflowHandle[] = [];
  for (const prompt of ['first', 'second', 'third']) waited.push(await startWaiting(prompt));
  await environment.sleep('4 hours');
  expect(upstream.created).toEqual(['alone', 'first', 'second', 'third']);
  for (const handle of waited) {
    const events = await eventsOf(handle);
    expect(events.length - alone.length).toBeLessThanOrEqual(20);
    const { turnReports } = countActions(events);
    expect(turnReports).toBe(1);
    expect(billableActions(events) - billableActions(alone) - turnReports).toBeLessThanOrEqual(6);
  }
});

test('where the queue is terminated, those that waited try by themselves, and none is lost or doubled', async () => {
  await queue.usedUp(1, HOUR, await now());
  const jobs: WorkflowHandle[] = [];
  for (const prompt of ['first', 'second', 'third']) jobs.push(await startWaiting(prompt));
  for (const job of jobs) await settledCount(job);
  await queue.handle.terminate();
  await environment.sleep('1 hour');
  expect(upstream.created).toEqual([]);
  await environment.sleep('8 hours');
  expect(upstream.created.toSorted()).toEqual(['first', 'second', 'third']);
  for (const job of jobs) expect(await job.result()).toMatchObject({ outcome: 'completed' });
});

/** What hours of waiting for a turn cost, and what a job does whose queue is gone. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { beforeEach, expect, test } from 'vitest';
import { billableActions, type HistoryEvents } from './billable-actions.js';
import { useDevServer } from '../support/job-tests.js';
import { ProjectQueue } from '../support/project-queue.js';
import { skipTimeBy } from '../support/skip-time.js';

const HOUR = 3_600_000;

const { server, upstream, bench } = useDevServer({ budgets: { createsPerHour: 1 } });
let projectId: string;
let queue: ProjectQueue;

beforeEach(() => {
  projectId = `p ${randomUUID()}`;
  queue = new ProjectQueue(server.client, bench.taskQueue, projectId);
});

async function startWaiting(prompt: string) {
  const handle = await bench.start({ projectId, prompt });
  await expect.poll(() => queue.placeOf(handle.workflowId)).not.toBeNull();
  return handle;
}

/** The events of a history once it grows no more, but for those of the test's own skips. */
async function settledEvents(handle: WorkflowHandle): Promise<HistoryEvents> {
  for (let before = -1; ;) {
    const events = (await handle.fetchHistory()).events!;
    if (events.length === before) return events.filter((event) => !isSkip(event));
    before = events.length;
    await new Promise((done) => setTimeout(done, 500));
  }
}

const isSkip = (event: HistoryEvents[number]) =>
  event.workflowExecutionTimeSkippingTransitionedEventAttributes ??
  event.workflowExecutionOptionsUpdatedEventAttributes;

test('a job that waits asks again every 13 to 20 minutes, for 12 events and 4 actions', async () => {
  await queue.usedUp(1, HOUR);
  const handle = await startWaiting('Fix it');
  const joined = await settledEvents(handle);
  await skipTimeBy(handle, '58 minutes');
  const later = await settledEvents(handle);
  const grown = later.length - joined.length;
  expect(grown).toBeGreaterThanOrEqual(2 * 11);
  expect(grown).toBeLessThanOrEqual(4 * 12);
  expect(billableActions(later) - billableActions(joined)).toBeLessThanOrEqual(4 * 4);
  expect(await queue.placeOf(handle.workflowId)).toMatchObject({ position: 1 });
  expect(upstream.created).toEqual([]);
});

test('those whose queue is terminated ask again within 20 minutes, and none is lost or doubled', async () => {
  await queue.usedUp(1, HOUR);
  const jobs: WorkflowHandle[] = [];
  for (const prompt of ['first', 'second', 'third']) jobs.push(await startWaiting(prompt));
  for (const job of jobs) await settledEvents(job);
  await queue.handle.terminate();
  await queue.usedUp(1, HOUR);
  for (const job of jobs) await skipTimeBy(job, '21 minutes');
  await expect.poll(() => queue.state()).toMatchObject({ waitingCount: 3 });
  expect(upstream.created).toEqual([]);
  // A turn is good for a minute of the queue's time.
  await skipTimeBy(queue.handle, '25 minutes');
  await queue.report({ outcome: 'unsent', perHour: 4 });
  for (const job of jobs) expect(await job.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.created.toSorted()).toEqual(['first', 'second', 'third']);
});

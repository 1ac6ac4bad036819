/** Jobs whose queue is paused or terminated while they wait. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { beforeEach, expect, test } from 'vitest';
import { jobStateQuery, pollNowSignal } from '../../src/contract.js';
import { AgentJobs } from '../../src/starter.js';
import { gathered } from '../client/job-server.js';
import { useDevServer } from '../support/job-tests.js';
import { pauseWorkflow } from '../support/paused.js';
import { ProjectQueue } from '../support/project-queue.js';

const HOUR = 3_600_000;

const { server, upstream, bench } = useDevServer({ budgets: { createsPerHour: 1, messagesPerHour: 1 } });
let projectId: string;
beforeEach(() => void (projectId = `p ${randomUUID()}`));

const queueOf = (operation: 'create' | 'message') =>
  new ProjectQueue(server.client, bench.taskQueue, projectId, operation);

async function untilWaiting(handle: WorkflowHandle, queue: ProjectQueue): Promise<void> {
  await expect.poll(() => queue.placeOf(handle.workflowId)).not.toBeNull();
  await expect.poll(() => handle.query(jobStateQuery)).toMatchObject({ waiting: { for: 'turn' } });
}

/** How often a job has asked its queue, and had to wait. */
async function asksOf(job: WorkflowHandle): Promise<number> {
  const { events = [] } = await job.fetchHistory();
  return events!.filter((event) => event.activityTaskCompletedEventAttributes).length;
}

test('those that wait for a paused queue have their turn once it goes on', async () => {
  const queue = queueOf('create');
  await queue.usedUp(1, HOUR);
  const job = await bench.start({ projectId, prompt: 'first' });
  await untilWaiting(job, queue);
  const unpause = await pauseWorkflow(server.client, queue.handle.workflowId);
  const jobs = new AgentJobs({ client: server.client });
  for (const given of [{ projectId }, {}]) {
    const own = (await gathered(jobs.queues(given))).filter((found) => found.projectId === projectId);
    const problem = expect.stringContaining('paused since') as string;
    expect(own).toEqual([{ ...queue.name, workflowId: queue.handle.workflowId, state: null, problem }]);
  }
  // Another one queues up there, and neither is sent.
  const second = await bench.start({ projectId, prompt: 'second' });
  await expect.poll(() => second.query(jobStateQuery)).toMatchObject({ waiting: { for: 'turn' } });
  await unpause();
  await untilWaiting(second, queue);
  await queue.report({ perHour: 1_000 });
  for (const one of [job, second]) expect(await one.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.created.toSorted()).toEqual(['first', 'second']);
});

test('pollNow has a job whose queue is gone ask again, and one whose queue is there keeps its place', async () => {
  const queue = queueOf('create');
  await queue.usedUp(1, HOUR);
  const [first, second] = [
    await bench.start({ projectId, prompt: 'first' }),
    await bench.start({ projectId, prompt: 'second' }),
  ];
  for (const job of [first, second]) await untilWaiting(job, queue);
  const before = await asksOf(second);
  await second.signal(pollNowSignal);
  // While it asks, another pollNow is none.
  await expect.poll(() => asksOf(second)).toBe(before + 1);
  await expect.poll(() => queue.placeOf(second.workflowId)).toMatchObject({ position: 2 });
  await queue.handle.terminate();
  await second.signal(pollNowSignal);
  expect(await second.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.created).toEqual(['second']);
  await first.terminate();
});

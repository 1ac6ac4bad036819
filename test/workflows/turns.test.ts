/** The job's side of the queue: turns that come early, late, twice or unwanted, and places that are given up. */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { beforeEach, expect, test } from 'vitest';
import { followUpSignal, joinQueueSignal, jobStateQuery, requestTurnSignal } from '../../src/contract.js';
import { gate } from '../support/observed-upstream.js';
import { useDevServer } from '../support/job-tests.js';
import { ProjectQueue } from '../support/project-queue.js';

const HOUR = 3_600_000;
const MINUTE = 60_000;
const CROWD = 30;
// temporal.api.enums.v1.EventType
const ACTIVITY_SCHEDULED = 10;
const TASK_COMPLETED = 7;

const { server, upstream, bench } = useDevServer();
let projectId: string;
let queue: ProjectQueue;

beforeEach(() => {
  projectId = `p ${randomUUID()}`;
  queue = new ProjectQueue(server.client, bench.taskQueue, projectId);
});

const start = (prompt: string, more: object = {}) => bench.start({ projectId, prompt, ...more });
const eventsOf = async (handle: WorkflowHandle, type: number) =>
  (await handle.fetchHistory()).events!.filter(({ eventType }) => eventType === type).length;

async function startWaiting(prompt: string, more: object = {}) {
  const handle = await start(prompt, more);
  await expect.poll(() => queue.placeOf(handle.workflowId)).not.toBeNull();
  await expect.poll(() => waitingFor(handle)).toBe('turn');
  return handle;
}

const waitingFor = async (handle: WorkflowHandle) =>
  (await handle.query<{ waiting: { for: string } | null }>(jobStateQuery.name)).waiting?.for;

test('a turn that comes too late is not used: the job keeps its place, and sends with the next one', async () => {
  await queue.usedUp(1, HOUR);
  const handle = await startWaiting('Fix it');
  await handle.signal(requestTurnSignal, {
    operation: 'create',
    id: 'late:1',
    until: Date.now() - 1_000,
    requests: 1,
  });
  await expect.poll(() => eventsOf(handle, ACTIVITY_SCHEDULED)).toBe(2);
  await expect.poll(() => waitingFor(handle)).toBe('turn');
  expect(upstream.created).toEqual([]);
  expect(await queue.placeOf(handle.workflowId)).toMatchObject({ position: 1 });
  await queue.report({ outcome: 'unsent', perHour: 2 });
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.created).toEqual(['Fix it']);
});

test('a turn that comes twice sends once, and one that no write waits for sends nothing', async () => {
  upstream.show = () => ({ status: upstream.messages.length > 0 ? 'completed' : 'active' });
  await queue.usedUp(1, HOUR);
  const handle = await startWaiting('Fix it', { settle: 0 });
  const turn = { operation: 'create' as const, id: 'twice:1', until: Date.now() + MINUTE, requests: 1 };
  const answers = gate();
  upstream.createGate = answers.opened;
  await Promise.all([handle.signal(requestTurnSignal, turn), handle.signal(requestTurnSignal, turn)]);
  await expect.poll(() => upstream.created).toEqual(['Fix it']);
  await handle.signal(requestTurnSignal, turn);
  answers.open();
  await expect.poll(() => handle.query(jobStateQuery)).toMatchObject({ phase: 'watching' });
  await handle.signal(requestTurnSignal, turn);
  await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
  expect(await handle.result()).toMatchObject({ followUps: [{ id: 'one', state: 'sent' }] });
  expect([upstream.created, upstream.messages]).toEqual([['Fix it'], ['And a test']]);
});

test('what is no turn is ignored', async () => {
  await queue.usedUp(1, HOUR);
  const handle = await startWaiting('Fix it');
  const until = Date.now() + MINUTE;
  const right = { operation: 'create', id: 'x', until };
  const wrongFields = [{ id: 7 }, { until: 1e300 }, { id: 'x'.repeat(101) }, { operation: 'visitors' }];
  for (const wrong of [undefined, 'turn', {}, ...wrongFields.map((fields) => ({ ...right, ...fields }))]) {
    await server.client.workflow.getHandle(handle.workflowId).signal(requestTurnSignal.name, wrong);
  }
  expect(await waitingFor(handle)).toBe('turn');
  expect(await eventsOf(handle, ACTIVITY_SCHEDULED)).toBe(1);
});

test('thirty that are cancelled cost the one behind them a signal each, and nothing of the budget', async () => {
  await queue.usedUp(1, HOUR);
  const crowd = await Promise.all(Array.from({ length: CROWD }, (_, i) => start(`of the crowd ${i}`)));
  const last = await startWaiting('the last one', { priority: 5 });
  const waitingCount = async () => (await queue.state()).waitingCount;
  await expect.poll(waitingCount, { timeout: 180_000 }).toBe(CROWD + 1);
  await Promise.all(crowd.map((handle) => handle.cancel()));
  await Promise.allSettled(crowd.map((handle) => handle.result()));
  const sentBefore = await queue.turnsSent();
  await queue.report({ outcome: 'unsent', perHour: 2 });
  expect(await last.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.created).toEqual(['the last one']);
  // The last one gets an empty turn besides, which asks whether it runs.
  expect((await queue.turnsSent()) - sentBefore).toBe(CROWD + 2);
  await expect.poll(() => queue.state()).toMatchObject({ spentLastHour: 2, inFlight: 0 });
});

async function resetQueue(): Promise<void> {
  const { events } = await queue.handle.fetchHistory();
  const first = events!.find(({ eventType }) => eventType === TASK_COMPLETED)!;
  await server.client.workflowService.resetWorkflowExecution({
    namespace: server.namespace,
    workflowExecution: { workflowId: queue.handle.workflowId },
    workflowTaskFinishEventId: first.eventId!,
    requestId: randomUUID(),
    reason: 'test',
  });
}

/** A job that has sent its create, and whose queue has forgotten that: one more turn may be given for it. */
async function forgottenBy(perHour: number, prompts: string[]) {
  upstream.show = () => ({ status: 'active' });
  await queue.report({ outcome: 'accepted', perHour });
  await queue.state();
  const jobs = [];
  for (const prompt of prompts) {
    const handle = await bench.start({ projectId, prompt, priority: 1 });
    await expect.poll(() => handle.query(jobStateQuery)).toMatchObject({ phase: 'watching' });
    jobs.push(handle);
  }
  const spentLastHour = prompts.length + 1;
  await expect.poll(() => queue.state()).toMatchObject({ spentLastHour, inFlight: 0, waitingCount: 0 });
  await resetQueue();
  await expect.poll(() => queue.state()).toMatchObject({ spentLastHour, waitingCount: prompts.length });
  return jobs;
}

test('jobs that have sent give back the turns that a queue gives them after its reset', async () => {
  await forgottenBy(4, ['first', 'second', 'third']);
  const last = await bench.start({ projectId, prompt: 'last' });
  await expect.poll(() => queue.placeOf(last.workflowId)).toMatchObject({ position: 4 });
  // Three have sent, and wait for nothing: one turn is enough.
  await queue.report({ outcome: 'unsent', perHour: 5 });
  await expect.poll(() => upstream.created).toEqual(['first', 'second', 'third', 'last']);
  await expect.poll(() => queue.state()).toMatchObject({ spentLastHour: 5, inFlight: 0, waitingCount: 0 });
});

test('a follow-up that waits for its turn does not take one of the queue of creates', async () => {
  const [job] = await forgottenBy(2, ['first']);
  const messages = new ProjectQueue(server.client, bench.taskQueue, projectId, 'message');
  await messages.usedUp(1, HOUR);
  await job!.signal(followUpSignal, { prompt: 'go on', id: 'one' });
  await expect.poll(() => messages.placeOf(job!.workflowId)).toMatchObject({ position: 1 });
  await expect.poll(() => job!.query(jobStateQuery)).toMatchObject({ waiting: { for: 'turn' } });
  await queue.report({ outcome: 'unsent', perHour: 3 });
  await expect.poll(() => queue.state()).toMatchObject({ spentLastHour: 2, inFlight: 0, waitingCount: 0 });
  expect(upstream.messages).toEqual([]);
  expect(await messages.placeOf(job!.workflowId)).toMatchObject({ position: 1 });
});

test('a turn that comes while its write is sent is given back, unless the write waits again', async () => {
  upstream.show = () => ({ status: 'active' });
  await queue.report({ outcome: 'accepted', perHour: 3 });
  const answers = gate();
  upstream.createGate = answers.opened;
  const job = await bench.start({ projectId, prompt: 'first' });
  await expect.poll(() => upstream.created).toEqual(['first']);
  // It asked again while its turn was on the way.
  const asked = { workflowId: job.workflowId, priority: 3 as const, askedAt: Date.now() };
  await queue.handle.signal(joinQueueSignal, asked);
  await expect.poll(() => queue.state()).toMatchObject({ inFlight: 2, waitingCount: 0 });
  answers.open();
  await expect.poll(() => queue.state()).toMatchObject({ inFlight: 0, spentLastHour: 2 });
});

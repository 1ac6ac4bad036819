/** Turns that reach a job which waits for none: the others must not wait behind them. */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { followUpSignal, joinQueueSignal, jobStateQuery } from '../../src/contract.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { gate, ObservedUpstream } from '../support/observed-upstream.js';
import { ProjectQueue } from '../support/project-queue.js';

const HOUR = 3_600_000;
const PATIENCE = { timeout: 120_000, interval: 250 };
// temporal.api.enums.v1.EventType
const TASK_COMPLETED = 7;

let server: TestServer;
let upstream: ObservedUpstream;
let bench: JobBench;
let queue: ProjectQueue;
let projectId: string;

beforeAll(async () => {
  server = await connectDevServer();
});
afterAll(() => server.close());
beforeEach(async () => {
  upstream = new ObservedUpstream();
  upstream.show = () => ({ status: 'active' });
  bench = await startJobBench(server, upstream);
  projectId = `p ${randomUUID()}`;
  queue = new ProjectQueue(server.client, bench.taskQueue, projectId);
});
afterEach(() => bench.stop());

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
  await queue.report({ outcome: 'accepted', perHour });
  await queue.state();
  const jobs = [];
  for (const prompt of prompts) {
    const handle = await bench.start({ projectId, prompt, priority: 1 });
    await expect.poll(() => handle.query(jobStateQuery), PATIENCE).toMatchObject({ phase: 'watching' });
    jobs.push(handle);
  }
  const spentLastHour = prompts.length + 1;
  await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ spentLastHour, inFlight: 0, waitingCount: 0 });
  await resetQueue();
  await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ spentLastHour, waitingCount: prompts.length });
  return jobs;
}

test(
  'jobs that have sent give back the turns that a queue gives them after its reset',
  { timeout: 120_000 },
  async () => {
    await forgottenBy(4, ['first', 'second', 'third']);
    const last = await bench.start({ projectId, prompt: 'last' });
    await expect.poll(() => queue.placeOf(last.workflowId), PATIENCE).toMatchObject({ position: 4 });
    // Three have sent, and wait for nothing: one turn is enough.
    await queue.report({ outcome: 'unsent', perHour: 5 });
    await expect.poll(() => upstream.created, PATIENCE).toEqual(['first', 'second', 'third', 'last']);
    await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ spentLastHour: 5, inFlight: 0, waitingCount: 0 });
  },
);

test(
  'a follow-up that waits for its turn does not take one of the queue of creates',
  { timeout: 120_000 },
  async () => {
    const [job] = await forgottenBy(2, ['first']);
    const messages = new ProjectQueue(server.client, bench.taskQueue, projectId, 'message');
    await messages.usedUp(1, HOUR);
    await job!.signal(followUpSignal, { prompt: 'go on', id: 'one' });
    await expect.poll(() => messages.placeOf(job!.workflowId), PATIENCE).toMatchObject({ position: 1 });
    await expect.poll(() => job!.query(jobStateQuery), PATIENCE).toMatchObject({ waiting: { for: 'turn' } });
    await queue.report({ outcome: 'unsent', perHour: 3 });
    await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ spentLastHour: 2, inFlight: 0, waitingCount: 0 });
    expect(upstream.messages).toEqual([]);
    expect(await messages.placeOf(job!.workflowId)).toMatchObject({ position: 1 });
  },
);

test('a turn that comes while its write is sent is given back, unless the write waits again', async () => {
  await queue.report({ outcome: 'accepted', perHour: 3 });
  const answers = gate();
  upstream.createGate = answers.opened;
  const job = await bench.start({ projectId, prompt: 'first' });
  await expect.poll(() => upstream.created, PATIENCE).toEqual(['first']);
  // It asked again while its turn was on the way.
  const asked = { workflowId: job.workflowId, priority: 3 as const, askedAt: Date.now() };
  await queue.handle.signal(joinQueueSignal, asked);
  await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ inFlight: 2, waitingCount: 0 });
  answers.open();
  await expect.poll(() => queue.state(), PATIENCE).toMatchObject({ inFlight: 0, spentLastHour: 2 });
});

/** `PROJECT_BUDGETS_FILE` is rewritten while jobs wait: those go, though nothing new is sent. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { requestTurnSignal } from '../../src/contract.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import type { agentJob } from '../../src/workflows/index.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { ProjectQueue } from '../support/project-queue.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';

const PATIENCE = { timeout: 60_000, interval: 250 };
vi.setConfig({ testTimeout: 240_000 });
// temporal.api.enums.v1.EventType
const SIGNALED = 26;

let server: TestServer;
let sandbox: Sandbox;
let folder: string;
let path: string;
let projectId: string;
const workers: WorkerProcess[] = [];

beforeAll(async () => {
  server = await connectDevServer();
  sandbox = await startSandbox({ script: { activeMs: 0 } });
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
});
afterAll(async () => {
  await sandbox.close();
  await server.close();
  await rm(folder, { recursive: true });
});
beforeEach(() => {
  path = join(folder, `${randomUUID()}.json`);
  projectId = `p ${randomUUID()}`;
});
afterEach(async () => {
  for (const worker of workers.splice(0)) {
    await worker.kill();
    if (worker.output().includes('Could not tell')) throw new Error('a queue that is not there was no reason to warn');
  }
});

const setTo = (budget: object) => writeFile(path, JSON.stringify({ [projectId]: budget }));

async function startWorker(taskQueue: string, env: Record<string, string> = {}): Promise<void> {
  const worker = startWorkerProcess({
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_TASK_QUEUE: taskQueue,
    ...env,
  });
  workers.push(worker);
  await worker.wrote('The worker runs');
}

/** Writes under way end first. */
async function stopWorker(): Promise<void> {
  const worker = workers.pop()!;
  worker.signal('SIGTERM');
  await worker.ended;
}

type Job = WorkflowHandle<typeof agentJob>;

/** Starts so many jobs, and lets those beyond the budget join the queue. */
async function startJobs(taskQueue: string, count: number, budget: number): Promise<[ProjectQueue, Job[]]> {
  const queue = new ProjectQueue(server.client, taskQueue, projectId);
  const start = (index: number) =>
    server.client.workflow.start<typeof agentJob>('agentJob', {
      taskQueue,
      workflowId: `agent-job/test/${randomUUID()}`,
      args: [{ projectId, prompt: `number ${index}` }],
    });
  const jobs = await Promise.all(Array.from({ length: count }, (_, index) => start(index)));
  const state = async () => {
    const { waitingCount, inFlight } = await queue.state();
    return { waitingCount, inFlight };
  };
  await expect.poll(() => state().catch(() => null), PATIENCE).toEqual({ waitingCount: count - budget, inFlight: 0 });
  return [queue, jobs];
}

async function allComplete(jobs: Job[]): Promise<void> {
  const results = await Promise.all(jobs.map((job) => job.result()));
  expect(results.map(({ outcome }) => outcome)).toEqual(jobs.map(() => 'completed'));
  expect(await sandbox.creates({ projectId })).toHaveLength(jobs.length);
  for (const job of jobs) expect(await signalsOf(job, requestTurnSignal.name)).toHaveLength(1);
}

async function signalsOf(handle: WorkflowHandle, name: string): Promise<unknown[]> {
  const events = (await handle.fetchHistory()).events ?? [];
  return events
    .filter(({ eventType }) => eventType === SIGNALED)
    .map(({ workflowExecutionSignaledEventAttributes: signaled }) => signaled!)
    .filter(({ signalName }) => signalName === name)
    .map(({ input }) => JSON.parse(Buffer.from(input!.payloads![0]!.data!).toString()) as unknown);
}

const news = async (queue: ProjectQueue) =>
  (await signalsOf(queue.handle, 'reportRequest')).filter((told) => (told as { turn: unknown }).turn === null);

test('those that wait go when the budget in the file is raised from 1 to 1000', async () => {
  const taskQueue = `test-${randomUUID()}`;
  await setTo({ createsPerHour: 1, messagesPerHour: 5 });
  await startWorker(taskQueue, { PROJECT_BUDGETS_FILE: path });
  const [queue, jobs] = await startJobs(taskQueue, 4, 1);
  const messages = new ProjectQueue(server.client, taskQueue, projectId, 'message');
  await messages.usedUp(5, 60_000);
  const before = await news(messages);
  await setTo({ createsPerHour: 1_000, messagesPerHour: 5 });
  await allComplete(jobs);
  expect(await queue.state()).toMatchObject({ perHour: 1_000, isLearned: false, waitingCount: 0 });
  expect(await news(queue)).toEqual([
    { turn: null, outcome: 'unsent', at: expect.any(Number) as number, perHour: 1_000 },
  ]);
  // The queue of the other kind, of which nothing has changed, hears nothing.
  expect(await news(messages)).toEqual(before);
});

test('those that wait go when the budget in the file becomes "unlimited"', async () => {
  const taskQueue = `test-${randomUUID()}`;
  await setTo({ createsPerHour: 2 });
  await startWorker(taskQueue, { PROJECT_BUDGETS_FILE: path });
  const [, jobs] = await startJobs(taskQueue, 4, 2);
  expect(await sandbox.creates({ projectId })).toHaveLength(2);
  await setTo({ createsPerHour: 'unlimited' });
  await allComplete(jobs);
});

test('a project that no job waits in gets no queue when its budget changes', async () => {
  const taskQueue = `test-${randomUUID()}`;
  await setTo({ createsPerHour: 1 });
  await startWorker(taskQueue, { PROJECT_BUDGETS_FILE: path });
  const [queue, jobs] = await startJobs(taskQueue, 2, 1);
  const idle = `idle ${projectId}`;
  await writeFile(path, JSON.stringify({ [idle]: { createsPerHour: 3 }, [projectId]: { createsPerHour: 9 } }));
  await allComplete(jobs);
  expect(await news(queue)).toHaveLength(1);
  await expect(new ProjectQueue(server.client, taskQueue, idle).state()).rejects.toThrow();
});

test.for([
  ['a higher number', '1000'],
  ['"unlimited"', 'unlimited'],
])('those that wait go when a worker starts with %s, and one that starts as before tells nothing', async ([, next]) => {
  const taskQueue = `test-${randomUUID()}`;
  await startWorker(taskQueue, { CREATES_PER_HOUR: '1' });
  const [queue, jobs] = await startJobs(taskQueue, 3, 1);
  await stopWorker();
  await startWorker(taskQueue, { CREATES_PER_HOUR: '1', LOG_LEVEL: 'debug' });
  await workers.at(-1)!.wrote('Looked which queues of writes know another budget');
  expect([await news(queue), await queue.state()]).toMatchObject([[], { perHour: 1, waitingCount: 2 }]);
  await stopWorker();
  await startWorker(taskQueue, { CREATES_PER_HOUR: next! });
  await allComplete(jobs);
});

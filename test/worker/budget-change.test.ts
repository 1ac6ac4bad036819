/** `PROJECT_BUDGETS_FILE` is rewritten while jobs wait: those go, though nothing new is sent. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { WorkflowHandle } from '@temporalio/client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { jobStateQuery, requestTurnSignal, type AgentJobInput } from '../../src/contract.js';
import { startSandbox } from '../../src/testing.js';
import type { agentJob } from '../../src/workflows/index.js';
import { connectDevServer } from '../support/dev-server.js';
import { ProjectQueue } from '../support/project-queue.js';
import { startWorkerProcess, workerEnv, type WorkerProcess } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

vi.setConfig({ testTimeout: 240_000 });
// temporal.api.enums.v1.EventType
const SIGNALED = 26;

const server = useForFile(connectDevServer);
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 0 } }));
const folder = newFolder();
let taskQueue: string;
let worker: WorkerProcess | undefined;

beforeEach(() => {
  taskQueue = `test-${randomUUID()}`;
});
afterEach(async () => {
  await worker?.kill();
  if (worker?.output().includes('Could not report')) {
    throw new Error('a queue that is not there was no reason to warn');
  }
});

async function startWorker(env: Record<string, string>): Promise<WorkerProcess> {
  worker = startWorkerProcess({
    ...workerEnv({ ...server, taskQueue }, sandbox),
    ...env,
  });
  await worker.wrote('The worker runs');
  return worker;
}

type Job = WorkflowHandle<typeof agentJob>;

const asJob = (input: AgentJobInput) => ({
  taskQueue,
  workflowId: `agent-job/test/${randomUUID()}`,
  args: [input] as [AgentJobInput],
});

const queueOf = (projectId: string) => new ProjectQueue(server.client, taskQueue, projectId);

/** Starts `count` jobs, and lets those beyond the budget join the queue. */
async function startJobs(projectId: string, count: number, budget: number): Promise<Job[]> {
  const prompts = Array.from({ length: count }, (_, index) => `number ${index}`);
  const jobs = await Promise.all(
    prompts.map((prompt) => server.client.workflow.start<typeof agentJob>('agentJob', asJob({ projectId, prompt }))),
  );
  const state = async () => {
    const { waitingCount, inFlight } = await queueOf(projectId).state();
    return { waitingCount, inFlight };
  };
  await expect.poll(() => state().catch(() => null)).toEqual({ waitingCount: count - budget, inFlight: 0 });
  return jobs;
}

async function allComplete(projectId: string, jobs: Job[]): Promise<void> {
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

const reports = async (queue: ProjectQueue) =>
  (await signalsOf(queue.handle, 'reportRequest')).filter((report) => (report as { turn: unknown }).turn === null);
const reported = (perHour: number) => ({
  turn: null,
  outcome: 'unsent',
  at: expect.any(Number) as number,
  perHour,
  perDay: null,
});

test('those that wait go when the budget in the file is raised from 1 to 1000, or becomes "unlimited"', async () => {
  const path = join(folder, 'budgets.json');
  const [raised, freed, idle] = ['raised', 'freed', 'idle'].map((name) => `${name} ${randomUUID()}`) as [
    string,
    string,
    string,
  ];
  const before = { [raised]: { createsPerHour: 1, messagesPerHour: 5 }, [freed]: { createsPerHour: 2 } };
  await writeFile(path, JSON.stringify(before));
  await startWorker({ PROJECT_BUDGETS_FILE: path });
  const [ofRaised, ofFreed] = [await startJobs(raised, 4, 1), await startJobs(freed, 4, 2)];
  expect(await sandbox.creates({ projectId: freed })).toHaveLength(2);
  const after = {
    [idle]: { createsPerHour: 3 },
    [raised]: { createsPerHour: 1_000, messagesPerHour: 5 },
    [freed]: { createsPerHour: 'unlimited' },
  };
  await writeFile(path, JSON.stringify(after));
  await allComplete(raised, ofRaised);
  await allComplete(freed, ofFreed);
  expect(await queueOf(raised).state()).toMatchObject({ perHour: 1_000, waitingCount: 0 });
  expect((await reports(queueOf(raised))).at(-1)).toEqual(reported(1_000));
  // A project that no job waits in gets no queue.
  await expect(queueOf(idle).state()).rejects.toThrow();
});

test('those that wait for the budget of a day say so, and go when it is raised in the file', async () => {
  const path = join(folder, 'day-budgets.json');
  const projectId = `day ${randomUUID()}`;
  await writeFile(path, JSON.stringify({ [projectId]: { createsPerDay: 2 } }));
  await startWorker({ PROJECT_BUDGETS_FILE: path, CREATES_PER_HOUR: '100' });
  const jobs = await startJobs(projectId, 5, 2);
  const readWaits = async () => {
    const states = await Promise.all(jobs.map((job) => job.query(jobStateQuery)));
    return states.flatMap(({ waiting }) => (waiting?.for === 'turn' ? [waiting] : []));
  };
  // A job knows its place a moment after its queue does.
  await expect.poll(async () => (await readWaits()).length).toBe(3);
  const waits = await readWaits();
  const reason = "the day's budget of 2 creates is used";
  expect(waits.map((wait) => wait.reason)).toEqual([reason, reason, reason]);
  const state = await queueOf(projectId).state();
  expect(state).toMatchObject({ perHour: 100, perDay: 2, spentLastHour: 2, spentLastDay: 2 });
  // Two go a day after the first two, and the last one a day later.
  const days = waits.map(({ until }) => Math.round((Date.parse(until!) - Date.now()) / 86_400_000));
  expect(days.toSorted((a, b) => a - b)).toEqual([1, 1, 2]);
  await writeFile(path, JSON.stringify({ [projectId]: { createsPerDay: 1_000 } }));
  await allComplete(projectId, jobs);
  expect(await queueOf(projectId).state()).toMatchObject({ perDay: 1_000, spentLastDay: 5, waitingCount: 0 });
});

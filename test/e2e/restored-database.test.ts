/** Temporal's database is lost and restored from a backup, while the upstream remembers all that was sent since. */
import { setTimeout as pause } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import {
  AgentJobs,
  type JobHandle,
  type ResolveUnknownInput,
  type StartRequest,
  type UnknownOutcomePolicy,
} from '../../src/starter.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { RestorableServer } from '../support/restorable-server.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';

const TASK_QUEUE = 'restored';
const AN_HOUR_MS = 3_600_000;

let server: RestorableServer;
let sandbox: Sandbox;
let connection: Connection;
let jobs: AgentJobs;
let worker: WorkerProcess | undefined;

beforeAll(async () => {
  server = await RestorableServer.start();
  sandbox = await startSandbox({ script: { activeMs: AN_HOUR_MS, followUp: 'ignore' } });
  connection = await Connection.connect({ address: server.address });
  const client = new Client({ connection, namespace: server.namespace });
  jobs = new AgentJobs({ client, taskQueue: TASK_QUEUE });
});
afterEach(() => worker?.kill());
afterAll(async () => {
  await connection?.close();
  await sandbox?.close();
  await server?.close();
});

async function startWorker(env: Record<string, string> = {}): Promise<void> {
  worker = startWorkerProcess({
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    ...env,
  });
  await worker.wrote('The worker runs');
}

async function stopWorker(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  worker?.signal(signal);
  await worker?.ended;
}

/** What callers ask for; each says all of it again after the restore. */
const POLICIES: Record<string, UnknownOutcomePolicy> = { repeating: 'retry', failing: 'fail' };
const FOLLOW_UPS: Record<string, string[]> = {
  steered: ['recorded', 'unread', 'late'],
  begun: ['first'],
  ended: ['afterwards'],
};

const promptOf = (key: string) => `[${key}] Fix it`;
const messageOf = (key: string, id: string) => `[${key} ${id}] And the tests`;

function start(key: string): Promise<JobHandle> {
  const request: StartRequest = {
    key,
    projectId: key,
    prompt: promptOf(key),
    polling: { min: '1 second', max: '1 second' },
    settle: 0,
    onUnknownOutcome: POLICIES[key] ?? 'ask',
  };
  return jobs.start(request);
}

const handleOf = (key: string) => jobs.handle({ projectId: key, key });
const followUp = (key: string, id: string) => handleOf(key).followUp(messageOf(key, id), { id });
const jobsOf = (key: string) => sandbox.creates({ promptIncludes: promptOf(key) });

async function timesDelivered(key: string, id: string): Promise<number> {
  const made = await jobsOf(key);
  const messages = await Promise.all(made.map((job) => sandbox.messages({ jobId: job.id })));
  return messages.flat().filter(({ prompt }) => prompt === messageOf(key, id)).length;
}

async function untilSent(key: string, id?: string): Promise<void> {
  const sent = () => (id === undefined ? jobsOf(key).then((made) => made.length) : timesDelivered(key, id));
  await expect.poll(sent).toBe(1);
}

async function untilAccepted(key: string, id?: string): Promise<void> {
  await untilSent(key, id);
  const state = async () => handleOf(key).state();
  if (id === undefined) await expect.poll(async () => (await state()).jobId).not.toBeNull();
  else await expect.poll(async () => (await state()).followUps.find((each) => each.id === id)?.state).toBe('sent');
}

const KEYS = ['steered', 'waiting', 'doubtful', 'begun', 'ended', 'repeating', 'failing'];

/** Until the backup: one job is under way, one in doubt, and one start and one follow-up wait for a worker. */
async function liveUntilBackup(): Promise<void> {
  await startWorker();
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'create', projectId: 'doubtful' });
  await start('steered');
  await start('doubtful');
  await untilAccepted('steered');
  await followUp('steered', 'recorded');
  await untilAccepted('steered', 'recorded');
  await expect.poll(async () => (await handleOf('doubtful').state()).phase).toBe('needsAttention');
  await stopWorker('SIGTERM');
  await start('waiting');
  await followUp('steered', 'unread');
}

/** What Temporal is going to forget. */
async function liveAfterBackup(): Promise<void> {
  await startWorker();
  await handleOf('doubtful').resolveUnknown({ action: 'retry' });
  for (const key of ['begun', 'ended', 'repeating', 'failing']) await start(key);
  for (const key of KEYS) await untilAccepted(key);
  for (const [key, id] of [
    ['steered', 'unread'],
    ['steered', 'late'],
    ['begun', 'first'],
  ] as const) {
    if (id !== 'unread') await followUp(key, id);
    await untilAccepted(key, id);
  }
  await complete('ended');
  expect(await handleOf('ended').result()).toMatchObject({ outcome: 'completed' });
  await followUp('ended', 'afterwards');
  await untilAccepted('ended', 'afterwards');
  await stopWorker('SIGKILL');
}

async function complete(key: string): Promise<void> {
  const [job] = await jobsOf(key);
  await sandbox.setJob({ id: job!.id, status: 'completed' });
}

async function sayAllAgain(): Promise<void> {
  for (const key of KEYS) await start(key);
  for (const [key, ids] of Object.entries(FOLLOW_UPS)) for (const id of ids) await followUp(key, id);
}

/** All that was sent in the lost time, or may have been, and a start that is new. */
const IN_DOUBT = [
  ...['waiting', 'doubtful', 'begun', 'ended', 'repeating', 'failing', 'new'].map((key) => `${key} create`),
  ...['steered unread', 'steered late', 'begun first', 'ended afterwards'],
];

/** A person who looks upstream and says what is true, until all that is in doubt was shown and settled. */
async function settleTruthfully(): Promise<string[]> {
  const shown = new Set<string>();
  for (const until = Date.now() + 60_000; Date.now() < until; await pause(250)) {
    let left = 0;
    for await (const { workflowId, projectId, unknown } of jobs.needsAttention()) {
      const key = projectId ?? '';
      left += 1;
      if (!unknown) continue;
      const { kind, followUpId, since } = unknown;
      shown.add(`${key} ${followUpId ?? kind}`);
      await jobs.handle(workflowId).resolveUnknown({ ...(await lookUpstream(key, followUpId)), since });
    }
    if (left === 0 && shown.size >= IN_DOUBT.length) break;
  }
  return [...shown].toSorted();
}

async function lookUpstream(key: string, followUpId: string | undefined): Promise<ResolveUnknownInput> {
  if (followUpId !== undefined) return { action: (await timesDelivered(key, followUpId)) > 0 ? 'delivered' : 'retry' };
  const [job] = await jobsOf(key);
  return job ? { action: 'adopt', jobId: job.id } : { action: 'retry' };
}

async function expectTimes(keys: readonly string[], times: number): Promise<void> {
  for (const key of keys) expect([key, (await jobsOf(key)).length]).toEqual([key, times]);
}

test('after a restore nothing is sent twice, what may have been sent asks a person, and every job ends', async () => {
  await liveUntilBackup();
  await server.backUp();
  await liveAfterBackup();

  await server.restore();
  await startWorker({ CONFIRM_WRITES_BEFORE: new Date(Date.now() + AN_HOUR_MS).toISOString() });
  await sayAllAgain();
  await start('new');
  // A `retry` that was decided on the state of the backup needs another confirmation, because of the restore.
  await handleOf('doubtful').resolveUnknown({ action: 'retry' });
  await expect.poll(async () => (await handleOf('doubtful').state()).unknown?.reason).toContain('restored');
  expect(await settleTruthfully()).toEqual(IN_DOUBT.toSorted());
  for (const key of [...KEYS, 'new']) await complete(key);
  for (const key of [...KEYS, 'new']) expect((await handleOf(key).result()).outcome).toBe('completed');
  await expectTimes([...KEYS, 'new'], 1);
  for (const [key, ids] of Object.entries(FOLLOW_UPS)) {
    for (const id of ids) expect([key, id, await timesDelivered(key, id)]).toEqual([key, id, 1]);
  }

  // The same restore without the setting shows that there was something to keep from being doubled.
  await stopWorker('SIGKILL');
  await server.restore();
  await startWorker();
  await sayAllAgain();
  for (const key of ['waiting', 'begun', 'ended', 'repeating', 'failing'])
    await expect.poll(async () => (await jobsOf(key)).length).toBe(2);
  for (const id of ['unread', 'late']) await expect.poll(() => timesDelivered('steered', id)).toBe(2);
}, 240_000);

/**
 * docs/runbooks.md, command by command. Temporal's database is lost and restored from a backup, while the
 * upstream remembers all that was sent since.
 */
import { pathToFileURL } from 'node:url';
import { Client, Connection, type ScheduleHandle } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { agentJobSchedule, AgentJobs, type JobHandle, type StartRequest } from '../../src/starter.js';
import type { InDoubtWrite, ResolveUnknownInput, UnknownOutcomePolicy } from '../../src/contract.js';
import { startSandbox } from '../../src/testing.js';
import { RestorableServer } from './restorable-server.js';
import { Runbook } from '../support/runbook.js';
import { needToolchain } from '../support/toolchains.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';
import { useForFile } from '../support/use.js';

const TASK_QUEUE = 'restored';
const AN_HOUR_MS = 3_600_000;

let server: RestorableServer;
const sandbox = useForFile(() => startSandbox({ script: { activeMs: AN_HOUR_MS, followUp: 'ignore' } }));
let connection: Connection;
let jobs: AgentJobs;
let worker: WorkerProcess | undefined;
let runbook: Runbook;
let recurring: ScheduleHandle;
/** What all workers have written since the backup. */
let log = '';

beforeAll(async () => {
  server = await RestorableServer.start();
  connection = await Connection.connect({ address: server.address });
  const client = new Client({ connection, namespace: server.namespace });
  jobs = new AgentJobs({ client, taskQueue: TASK_QUEUE });
  const env = { TEMPORAL_ADDRESS: server.address, AGENT_JOBS_TASK_QUEUE: TASK_QUEUE };
  runbook = await Runbook.open('docs/runbooks.md', env);
});
afterEach(() => worker?.kill());
afterAll(async () => {
  await connection?.close();
  await server?.close();
});

async function startWorker(env: Record<string, string> = {}): Promise<void> {
  worker = startWorkerProcess({
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    SNAPSHOTS_URL: pathToFileURL(`${runbook.folder}/snapshots`).href,
    ...env,
  });
  await worker.wrote('The worker runs');
}

async function stopWorker(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  worker?.signal(signal);
  await worker?.ended;
  log += worker?.output() ?? '';
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

const KEYS = ['steered', 'waiting', 'doubtful', 'inFlight', 'begun', 'ended', 'repeating', 'failing', 'unlogged'];
/** Started in the lost time by a caller that never repeats it. */
const UNREPEATED = 'unrepeated';
const ALL_KEYS = [...KEYS, 'canceled', UNREPEATED];

/**
 * Until the backup: one job is under way, one in doubt, one create is on its way, and one start and one follow-up wait
 * for a worker.
 */
async function liveUntilBackup(): Promise<void> {
  await startWorker();
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'create', projectId: 'doubtful' });
  await sandbox.addFault({
    kind: 'delay',
    delayMs: 10_000, // until the worker stands still
    effect: 'after',
    operation: 'create',
    projectId: 'inFlight',
  });
  for (const key of ['steered', 'doubtful', 'canceled']) await start(key);
  for (const key of ['steered', 'canceled']) await untilAccepted(key);
  await followUp('steered', 'recorded');
  await untilAccepted('steered', 'recorded');
  await expect.poll(async () => (await handleOf('doubtful').state()).phase).toBe('needsAttention');
  const options = agentJobSchedule({
    projectId: 'recurring',
    name: 'nightly',
    prompt: promptOf('recurring'),
    taskQueue: TASK_QUEUE,
    polling: { min: '1 second', max: '1 second' },
    spec: { intervals: [{ every: '1 hour' }] },
  });
  recurring = await jobs.client.schedule.create({ ...options, state: { paused: true } });
  await start('inFlight');
  await untilSent('inFlight');
  worker?.signal('SIGSTOP');
  await start('waiting');
  await followUp('steered', 'unread');
}

/** As Temporal does for a time that it missed. */
function makeUpForOneHour(): Promise<void> {
  const [start, end] = [new Date(Date.UTC(2026, 2, 10, 1) - 1_000), new Date(Date.UTC(2026, 2, 10, 1))];
  return recurring.backfill({ start, end, overlap: 'ALLOW_ALL' });
}

/** What Temporal is going to forget. */
async function liveAfterBackup(): Promise<void> {
  worker?.signal('SIGCONT');
  await makeUpForOneHour();
  await untilSent('recurring');
  await exportDay();
  await handleOf('doubtful').resolve({ action: 'retry' });
  for (const key of ['begun', 'ended', 'repeating', 'failing', UNREPEATED]) await start(key);
  for (const key of ALL_KEYS.filter((each) => each !== 'unlogged')) await untilAccepted(key);
  for (const [key, id] of [
    ['steered', 'unread'],
    ['steered', 'late'],
    ['steered', UNREPEATED],
    ['begun', 'first'],
  ] as const) {
    if (id !== 'unread') await followUp(key, id);
    await untilAccepted(key, id);
  }
  await handleOf('canceled').cancel();
  await expect(handleOf('canceled').result()).rejects.toThrow();
  await complete('ended');
  expect(await handleOf('ended').result()).toMatchObject({ outcome: 'completed' });
  await followUp('ended', 'afterwards');
  await untilAccepted('ended', 'afterwards');
  // Log lines are written a tenth of a second later: the log of a worker that is killed before lacks them.
  await worker?.wrote('"followUpId":"afterwards"');
  await loseAnswer('unlogged');
  await stopWorker('SIGKILL');
}

/** Its worker is killed before it knows that the upstream took the create. */
async function loseAnswer(key: string): Promise<void> {
  await sandbox.addFault({ kind: 'hang', effect: 'after', operation: 'create', projectId: key });
  await start(key);
  await untilSent(key);
}

async function complete(key: string): Promise<void> {
  const [job] = await jobsOf(key);
  await sandbox.setJob({ id: job!.id, status: 'completed' });
}

async function sayAllAgain(): Promise<void> {
  await makeUpForOneHour();
  for (const key of KEYS) await start(key);
  for (const [key, ids] of Object.entries(FOLLOW_UPS)) for (const id of ids) await followUp(key, id);
}

/** A dump of the snapshots' day; the same day again is found unchanged. */
async function exportDay(): Promise<Record<string, unknown>> {
  const command = 'agent-jobs export run --project my-project --day 2026-01-01 --json';
  const { snapshots } = JSON.parse(await runbook.shell(command)) as { snapshots: Record<string, unknown>[] };
  return snapshots[0] ?? {};
}

/** What the logs prove. */
const RESOLVED_BY_LOGS = [
  ...['waiting', 'doubtful', 'inFlight', 'begun', 'ended', 'repeating', 'failing', 'recurring'].map(
    (key) => `${key} adopt`,
  ),
  ...['steered', 'begun', 'ended'].map((key) => `${key} delivered`),
  `${UNREPEATED} attach`,
].toSorted();

/** What the logs can't prove, and the person's decision about each, after a look upstream. */
async function decideTruthfully(): Promise<string[]> {
  await runbook.run('attention --json > rest.ndjson');
  const lines = runbook.read('rest.ndjson').split('\n').filter(Boolean);
  const doubts = lines.map((line) => JSON.parse(line) as { projectId: string; unknown: InDoubtWrite });
  const decided = await Promise.all(
    doubts.map(async (doubt) => ({ ...doubt, ...(await lookUpstream(doubt.projectId, doubt.unknown.followUpId)) })),
  );
  runbook.write('rest.ndjson', decided.map((line) => JSON.stringify(line)).join('\n'));
  await runbook.run('resolve --from rest.ndjson --yes');
  return doubts.map(({ projectId, unknown }) => `${projectId} ${unknown.followUpId ?? unknown.kind}`).toSorted();
}

async function lookUpstream(key: string, followUpId: string | undefined): Promise<ResolveUnknownInput> {
  if (followUpId !== undefined) return { action: (await timesDelivered(key, followUpId)) > 0 ? 'delivered' : 'retry' };
  const [job] = await jobsOf(key);
  return job ? { action: 'adopt', jobId: job.id } : { action: 'retry' };
}

async function expectTimes(keys: readonly string[], times: number): Promise<void> {
  for (const key of keys) expect([key, (await jobsOf(key)).length]).toEqual([key, times]);
}

test('after a restore nothing is sent twice, what may have been sent asks, and every job ends', async (context) => {
  await needToolchain(context, 'jq');
  await liveUntilBackup();
  await server.backUp();
  await liveAfterBackup();

  await server.restore();
  const name = 'CONFIRM_WRITES_BEFORE';
  await startWorker({ [name]: await runbook.variable(name, `export ${name}`) });
  await sayAllAgain();
  await start('new');
  // A `retry` that was decided on the state of the backup needs another confirmation, because of the restore.
  await handleOf('doubtful').resolve({ action: 'retry' });
  await expect.poll(async () => (await handleOf('doubtful').state()).unknown?.reason).toContain('restored');
  runbook.write('workers.log', log);
  let [printed, proven] = ['', ''];
  const resolveByLogs = async () => {
    printed += await runbook.run('workers.log', { mayEndWith: [1] });
    proven += runbook.read('proven.ndjson');
    const resolved = [...printed.matchAll(/agent-job\/(\w+)\/\S+ {2}resolved with (\w+)/g)];
    return [...new Set(resolved.map(([, key, action]) => `${key} ${action}`))].toSorted();
  };
  await expect.poll(resolveByLogs, { timeout: 120_000, interval: 3_000 }).toEqual(RESOLVED_BY_LOGS);
  // Without force a job that is older than the caller's repetition would not be adopted.
  const adopted = proven.split('\n').filter((line) => line.includes('"action":"adopt"'));
  expect(adopted.filter((line) => !line.includes('"force":true'))).toEqual([]);
  expect(await decideTruthfully()).toEqual(['new create', 'unlogged create']);
  await expect.poll(async () => (await jobsOf('new')).length).toBe(1);
  await expect
    .poll(() => runbook.shell('agent-jobs attention'), { timeout: 120_000, interval: 2_000 })
    .toContain('nothing needs attention');
  expect(await runbook.shell(`grep '"outcome":"Canceled"' workers.log`)).toContain('agent-job/canceled/canceled');
  await runbook.shell('agent-jobs cancel agent-job/canceled/canceled');
  await expect(handleOf('canceled').result()).rejects.toThrow();

  await expect(start(UNREPEATED)).rejects.toThrow('names a job with another input');
  const open = [...KEYS, UNREPEATED, 'new'];
  for (const key of open) await complete(key);
  for (const key of open) expect([key, (await handleOf(key).result()).outcome]).toEqual([key, 'completed']);
  await expectTimes([...open, 'canceled', 'recurring'], 1);
  for (const [key, ids] of Object.entries({ ...FOLLOW_UPS, steered: [...FOLLOW_UPS['steered']!, UNREPEATED] })) {
    for (const id of ids) expect([key, id, await timesDelivered(key, id)]).toEqual([key, id, 1]);
  }
  expect(await exportDay()).toMatchObject({ unchanged: true, consistent: true });
});

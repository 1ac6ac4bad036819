/** Writes whose key is refused or missing wait until it is there. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WorkflowFailedError, WorkflowHandle } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, type JobState } from '../../src/contract.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource, type KeySettings } from '../../src/upstream/keys.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench, type JobBench, type JobBenchOptions } from '../support/job-bench.js';

/** More than the eight that are sent at once. */
const JOBS = 10;
const PATIENCE = { timeout: 120_000, interval: 100 };
/** Longer than any test: what goes on goes on because the file changed. */
const NEVER_MS = 3_600_000;

let server: TestServer;
let sandbox: Sandbox;
let folder: string;
let closers: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  server = await connectDevServer();
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keys-'));
  sandbox = await startSandbox({ script: { activeMs: 0, messageLagMs: 0 }, keptRequests: 100_000 });
});
afterEach(async () => {
  for (const close of closers) await close();
  closers = [];
  await sandbox.close();
  await rm(folder, { recursive: true });
});
afterAll(async () => server?.close());

async function write(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
  return path;
}

async function startBench(keys: KeySettings, options: JobBenchOptions = {}): Promise<JobBench> {
  const upstream = createUpstream({
    baseUrl: sandbox.url,
    keys: createKeySource(keys),
    timeoutMs: 20_000,
    notTakenStatuses: [],
  });
  const bench = await startJobBench(server, upstream, { tryKeyEveryMs: NEVER_MS, ...options });
  closers.push(
    () => bench.stop(),
    () => upstream.close(),
  );
  return bench;
}

const startJobs = (bench: JobBench, count = JOBS) =>
  Promise.all(Array.from({ length: count }, (_, i) => bench.start({ projectId: 'p1', prompt: `prompt ${i}` })));

const stateOf = (handle: WorkflowHandle) => handle.query<JobState>(jobStateQuery.name);

async function untilTheyWaitForAKey(handles: WorkflowHandle[]): Promise<void> {
  const waits = async () => (await Promise.all(handles.map(stateOf))).map(({ waiting }) => waiting?.for);
  await expect.poll(waits, PATIENCE).toEqual(handles.map(() => 'key'));
}

async function creates(): Promise<number> {
  return (await sandbox.counts()).operations.create.requests;
}

async function expectEachOnce(prompts: number): Promise<void> {
  const jobs = await sandbox.creates({ projectId: 'p1' });
  expect(jobs.map(({ prompt }) => prompt).toSorted()).toEqual(
    Array.from({ length: prompts }, (_, i) => `prompt ${i}`).toSorted(),
  );
}

test(
  'jobs that were started with a wrong key are created once each when its file is replaced',
  { timeout: 180_000 },
  async () => {
    const adminApiKeyFile = await write('admin', 'a-wrong-key');
    const changes: [string, boolean][] = [];
    const onKeyChange = (projectId: string, reason: string | null) => void changes.push([projectId, reason === null]);
    const bench = await startBench({ adminApiKeyFile }, { onKeyChange });
    const handles = await startJobs(bench);
    await untilTheyWaitForAKey(handles);
    const [state] = await Promise.all(handles.map(stateOf));
    expect(state).toMatchObject({ phase: 'creating', jobId: null, waiting: { reason: 'upstream answered 401' } });
    // While the file is the same no write asks; one that did would do so every ten seconds.
    const { requests } = (await sandbox.counts()).operations.create;
    await new Promise((resolve) => setTimeout(resolve, 12_000));
    expect(await creates()).toBe(requests);

    await write('admin', sandbox.apiKey);
    for (const handle of handles) expect(await handle.result()).toMatchObject({ outcome: 'completed' });
    await expectEachOnce(JOBS);
    expect(await creates()).toBe(requests + JOBS);
    expect(changes).toEqual([
      ['p1', false],
      ['p1', true],
    ]);
  },
);

test('writes that are forbidden (403) wait, and go once each when they may', { timeout: 120_000 }, async () => {
  const bench = await startBench({ adminApiKey: sandbox.apiKey }, { tryKeyEveryMs: 1_000 });
  const open = await bench.start({ projectId: 'p2', prompt: 'first', linger: '1 hour' });
  await expect.poll(async () => (await stateOf(open)).phase, PATIENCE).toBe('lingering');
  // The address of the worker is not allowed, or the key lacks a scope: an operator mends either.
  await sandbox.addFault({ kind: 'status', status: 403, count: 100_000 });
  const handles = await startJobs(bench);
  await open.signal(followUpSignal, { prompt: 'go on', id: 'one' });
  await untilTheyWaitForAKey([...handles, open]);
  await expect.poll(async () => (await stateOf(handles[0]!)).waiting?.reason, PATIENCE).toBe('upstream answered 403');
  expect(await sandbox.creates({ projectId: 'p1' })).toEqual([]);
  await sandbox.clearFaults();
  for (const handle of handles) expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  await expectEachOnce(JOBS);
  await expect.poll(async () => (await stateOf(open)).followUps, PATIENCE).toEqual([{ id: 'one', state: 'sent' }]);
  await open.cancel();
});

test('one prompt that is forbidden for ever keeps no other write waiting', { timeout: 120_000 }, async () => {
  await sandbox.addFault({ kind: 'status', status: 403, operation: 'create', promptIncludes: 'odd', count: 100_000 });
  // By its own time no minute passes: what was accepted was accepted just now.
  const bench = await startBench({ adminApiKey: sandbox.apiKey });
  await (await bench.start({ projectId: 'p1', prompt: 'prompt 0' })).result();
  const odd = await bench.start({ projectId: 'p1', prompt: 'odd' });
  await untilTheyWaitForAKey([odd]);
  for (let i = 1; i < 4; i++) await (await bench.start({ projectId: 'p1', prompt: `prompt ${i}` })).result();
  await expectEachOnce(4);
  await untilTheyWaitForAKey([odd]);
  await expect.poll(async () => (await stateOf(odd)).waiting?.reason, PATIENCE).toBe('upstream answered 403');
  await odd.cancel();
});

test('a write that is refused whatever a read shows is sent ever more rarely', { timeout: 120_000 }, async () => {
  // Reads show that the key is accepted.
  await sandbox.addFault({ kind: 'status', operation: 'create', status: 401, count: 4 });
  const bench = await startBench({ adminApiKey: sandbox.apiKey }, { tryKeyEveryMs: 100 });
  const [handle] = await startJobs(bench, 1);
  const timers = async () => {
    const { events } = await handle!.fetchHistory();
    const started = events!.flatMap(
      ({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout?.seconds ?? [],
    );
    // Without the deadline's timer.
    return started.map(Number).filter((seconds) => seconds < 3_600);
  };
  await expect.poll(timers, PATIENCE).toEqual([10, 20]);
  expect(await creates()).toBe(3);
  await handle!.cancel();
});

test('the deadline and a cancellation end the wait for a key, and nothing was sent', { timeout: 120_000 }, async () => {
  const bench = await startBench({ adminApiKey: 'a-wrong-key' });
  const late = await bench.start({ projectId: 'p1', prompt: 'late', deadline: '5 seconds' });
  const cancelled = await bench.start({ projectId: 'p1', prompt: 'cancelled' });
  const followed = await bench.start({ projectId: 'p1', jobId: 'job-1', deadline: '8 seconds' });
  await followed.signal(followUpSignal, { prompt: 'go on', id: 'one' });
  await untilTheyWaitForAKey([cancelled]);
  await cancelled.cancel();
  const error = await cancelled.result().catch((e: unknown) => e);
  expect((error as WorkflowFailedError).cause).toBeInstanceOf(CancelledFailure);
  expect(await late.result()).toMatchObject({ outcome: 'timedOut', jobId: null });
  expect(await followed.result()).toMatchObject({
    outcome: 'timedOut',
    followUps: [{ id: 'one', state: 'abandoned' }],
    usedFollowUpIds: [],
  });
  expect(await sandbox.creates({})).toEqual([]);
});

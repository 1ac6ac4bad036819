/** Writes whose key is refused or missing, or that something on the way answers, wait until one is accepted. */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { WorkflowFailedError, WorkflowHandle } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, type JobState } from '../../src/contract.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource, type KeySettings } from '../../src/upstream/keys.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench, type JobBenchOptions } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

/** More than the eight that are sent at once. */
const JOBS = 10;
/** Longer than any test: what goes on goes on because the file changed. */
const NEVER_MS = 3_600_000;

const server = useForFile(connectDevServer);
let sandbox: Sandbox;
let folder: string;
let closers: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  folder = newFolder();
  sandbox = await startSandbox({ script: { activeMs: 0, messageLagMs: 0 }, keptRequests: 100_000 });
});
afterEach(async () => {
  for (const close of closers) await close();
  closers = [];
  await sandbox.close();
});

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

/** A job that another made, and that stays active. */
async function startWatched(bench: JobBench, projectId: string): Promise<WorkflowHandle> {
  await sandbox.addScript({ promptIncludes: 'watched', script: { activeMs: NEVER_MS } });
  const headers = { authorization: `Bearer ${sandbox.apiKey}`, 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: JSON.stringify({ prompt: 'watched' }) };
  const created = await fetch(`${sandbox.url}/v2/agent/${projectId}/job`, request);
  const { id } = (await created.json()) as { id: string };
  const handle = await bench.start({ projectId, jobId: id, polling: { min: 1_000, max: 1_000 } });
  await expect.poll(async () => (await stateOf(handle)).job?.status).toBe('active');
  return handle;
}

async function activitiesOf(handle: WorkflowHandle): Promise<(string | null | undefined)[]> {
  const { events } = await handle.fetchHistory();
  return events!.flatMap(({ activityTaskScheduledEventAttributes: it }) => (it ? it.activityType?.name : []));
}

const stateOf = (handle: WorkflowHandle) => handle.query<JobState>(jobStateQuery.name);

async function untilTheyWaitForAKey(handles: WorkflowHandle[]): Promise<void> {
  const waits = async () => (await Promise.all(handles.map(stateOf))).map(({ waiting }) => waiting?.for);
  await expect.poll(waits).toEqual(handles.map(() => 'key'));
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

test('jobs that were started with a wrong key are created once each when its file is replaced', async () => {
  const adminApiKeyFile = await write('admin', 'a-wrong-key');
  const changes: string[] = [];
  const bench = await startBench(
    { adminApiKeyFile },
    { onHold: ({ projectId, operation }, held) => void changes.push(`${operation} ${projectId}: ${held?.reason}`) },
  );
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
  expect(changes).toEqual(['create p1: upstream answered 401', 'create p1: undefined']);
});

test('polls that are refused (401) hold no write', async () => {
  const bench = await startBench({ adminApiKey: sandbox.apiKey });
  const watched = await startWatched(bench, 'p1');
  await sandbox.addFault({ kind: 'status', operation: 'get', projectId: 'p1', status: 401, count: 2 });
  await expect.poll(async () => (await stateOf(watched)).waiting?.for).toBe('key');
  const [created] = await startJobs(bench, 1);
  expect(await created!.result()).toMatchObject({ outcome: 'completed' });
  await watched.signal(followUpSignal, { prompt: 'go on', id: 'one' });
  await expect.poll(async () => (await stateOf(watched)).followUps).toEqual([{ id: 'one', state: 'sent' }]);
  for (const handle of [created!, watched]) expect(await activitiesOf(handle)).not.toContain('awaitTry');
  await watched.cancel();
});

test('writes that are forbidden (403) wait, and go once each when they may', async () => {
  const bench = await startBench({ adminApiKey: sandbox.apiKey }, { tryKeyEveryMs: 1_000 });
  const watched = await startWatched(bench, 'p2');
  // The address of the worker is not allowed, or the key lacks a scope: an operator mends either.
  for (const operation of ['create', 'message'] as const) {
    await sandbox.addFault({ kind: 'status', operation, status: 403, count: 100_000 });
  }
  const handles = await startJobs(bench);
  await watched.signal(followUpSignal, { prompt: 'go on', id: 'one' });
  await untilTheyWaitForAKey([...handles, watched]);
  await expect.poll(async () => (await stateOf(handles[0]!)).waiting?.reason).toBe('upstream answered 403');
  expect(await sandbox.creates({ projectId: 'p1' })).toEqual([]);
  await sandbox.clearFaults();
  for (const handle of handles) expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  await expectEachOnce(JOBS);
  await expect.poll(async () => (await stateOf(watched)).followUps).toEqual([{ id: 'one', state: 'sent' }]);
  await watched.cancel();
});

/** The seconds of its timers, without that of the deadline. */
async function timersOf(handle: WorkflowHandle): Promise<number[]> {
  const { events } = await handle.fetchHistory();
  const started = events!.flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout?.seconds ?? []);
  return started.map(Number).filter((seconds) => seconds < 3_600);
}

test('a lone write that is refused again and again costs no timer', async () => {
  await sandbox.addFault({ kind: 'status', operation: 'create', status: 401, count: 3 });
  const bench = await startBench({ adminApiKey: sandbox.apiKey }, { tryKeyEveryMs: 1_000 });
  const [handle] = await startJobs(bench, 1);
  expect(await handle!.result()).toMatchObject({ outcome: 'completed' });
  expect([await creates(), await timersOf(handle!)]).toEqual([4, []]);
});

test('writes that a page answers wait for the upstream, and go once each when it is gone', async () => {
  const upstream = new ScriptedUpstream();
  const reason = 'a page instead of an answer: 403 Just a moment…';
  upstream.createFaults.push(...Array.from({ length: 2 }, () => ({ kind: 'blocked', reason }) as const));
  const bench = await startJobBench(server, upstream, { tryKeyEveryMs: 2_000 });
  closers.push(() => bench.stop());
  const [first] = await startJobs(bench, 1);
  await expect.poll(async () => (await stateOf(first!)).waiting).toMatchObject({ for: 'upstream', reason });
  const others = await startJobs(bench, 3);
  await expect.poll(async () => (await stateOf(others[2]!)).waiting).toMatchObject({ for: 'upstream', reason });
  for (const handle of [first!, ...others]) expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.created).toHaveLength(2 + 4);
});

test('the deadline and a cancellation end the wait for a key, and nothing was sent', async () => {
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

import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Sandbox } from '../../src/testing.js';
import { SANDBOX_API_KEY, SandboxControl } from '../../src/testing.js';
import { call, createJob, getJob, getVisitors, sandboxForTest, sendMessage } from './support.js';
import { newFolder } from '../support/folder.js';

const MAIN = join(import.meta.dirname, '../../src/sandbox/main.ts');

/** The URL that a sandbox process prints; rejects if it ends first. */
function announcedUrl(child: ChildProcessWithoutNullStreams): Promise<string> {
  return new Promise((resolve, reject) => {
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      const found = /Sandbox upstream {2}(\S+)\nAPI key +\S+/.exec(out);
      if (found?.[1]) resolve(found[1]);
    });
    child.on('exit', () => reject(new Error(`ended early: ${out}`)));
  });
}

const folder = newFolder();

test('a wrong key is a 401, a foreign project a 403, in the error form of the operation', async () => {
  const sandbox = await sandboxForTest();
  expect(sandbox.apiKey).toBe(SANDBOX_API_KEY);
  expect((await createJob(sandbox, 'x', { key: 'wrong' })).json).toEqual({ error: expect.any(String) });
  const visitors = await getVisitors(sandbox, '', 'acme', { key: 'wrong' });
  expect(visitors.status).toBe(401);
  expect(visitors.json).toEqual({ error: expect.any(String), details: [{ message: expect.any(String) }] });
  await sandbox.setKeys([{ key: 'b', projectIds: ['b'] }]);
  expect((await createJob(sandbox)).status).toBe(401);
  expect((await createJob(sandbox, 'x', { key: 'b' })).status).toBe(403);
  expect((await getVisitors(sandbox, '', 'b', { key: 'b' })).status).toBe(200);
  expect(await sandbox.creates()).toEqual([]);
});

test('creates and messages are limited per project, visitors over all projects, as a sliding window', async () => {
  let now = 0;
  const sandbox = await sandboxForTest({
    clock: () => now,
    rateLimits: { create: 2, message: 1, visitors: 2, windowMs: 1_000, retryAfter: 'seconds' },
  });
  const { id } = (await createJob(sandbox)).json;
  now = 600;
  expect((await createJob(sandbox)).status).toBe(201);
  const refused = await createJob(sandbox);
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '1']);
  expect((await call(sandbox, 'POST', '/v2/agent/other/job', { prompt: 'x' })).status).toBe(201);
  expect([(await sendMessage(sandbox, id)).status, (await sendMessage(sandbox, id)).status]).toEqual([200, 429]);
  const visitors = [];
  for (const project of ['a', 'b', 'c']) visitors.push((await getVisitors(sandbox, '', project)).status);
  expect(visitors).toEqual([200, 200, 429]);
  now = 1_000;
  expect([(await createJob(sandbox)).status, (await createJob(sandbox)).status]).toEqual([201, 429]);
  expect((await getJob(sandbox, id)).status).toBe(200);
});

test('a limit can count by fixed windows and promise no Retry-After', async () => {
  let now = 999;
  const sandbox = await sandboxForTest({
    clock: () => now,
    rateLimits: { create: 1, windowMs: 1_000, window: 'fixed' },
  });
  expect((await createJob(sandbox)).status).toBe(201);
  const refused = await createJob(sandbox);
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, undefined]);
  now = 1_000;
  expect((await createJob(sandbox)).status).toBe(201);
});

test('jobs, messages and changes outlive the process that took them, a torn last line does not', async () => {
  const dataFile = join(folder, 'journal', 'jobs.jsonl');
  const first = await sandboxForTest({ dataFile, clock: () => 0, script: { activeMs: 100 } });
  await first.addScript({ script: { steps: [{ status: 'failed' }] } });
  const failed = (await createJob(first, 'one')).json.id;
  const { id } = (await createJob(first, 'two')).json;
  await sendMessage(first, id, 'three');
  await first.setJob({ id: failed, status: 'archived' });
  await first.setScript({ steps: [{ status: 'archived' }] });
  const archived = (await createJob(first, 'four')).json;
  await first.close();
  appendFileSync(dataFile, '{"type":"create","id":"job_torn');
  const second = await sandboxForTest({ dataFile, clock: () => 10_000, script: { activeMs: 100 } });
  expect((await second.creates()).map(({ prompt }) => prompt)).toEqual(['one', 'two', 'four']);
  expect((await second.messages()).map(({ prompt }) => prompt)).toEqual(['three']);
  expect((await getJob(second, failed)).json.status).toBe('archived');
  expect((await getJob(second, id)).json).toMatchObject({ status: 'completed', createdAt: '1970-01-01T00:00:00.000Z' });
  expect((await getJob(second, archived.id)).json).toEqual(archived);
  await createJob(second, 'five');
  expect(
    readFileSync(dataFile, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).type),
  ).toEqual(['create', 'create', 'message', 'set', 'create', 'create']);
});

test('a create whose answer was seen outlives kill -9 of the sandbox', async () => {
  const dataFile = join(folder, 'killed.jsonl');
  const child = spawn(process.execPath, ['--import', 'tsx', MAIN, '--data', dataFile, '--quiet']);
  const ended = once(child, 'exit');
  const url = await announcedUrl(child);
  const peer = { port: Number(new URL(url).port), apiKey: SANDBOX_API_KEY } as Sandbox;
  const created = await createJob(peer).finally(() => child.kill('SIGKILL'));
  await ended;
  const again = await sandboxForTest({ dataFile });
  expect((await getJob(again, created.json.id)).status).toBe(200);
});

test('the program takes times as durations, and a wrong one ends it', async () => {
  const start = (...options: string[]) => spawn(process.execPath, ['--import', 'tsx', MAIN, '--quiet', ...options]);
  const child = start('--active-ms', '0', '--late-pr', '1h', '--stale-end', '2 hours');
  const url = await announcedUrl(child);
  const peer = { port: Number(new URL(url).port), apiKey: SANDBOX_API_KEY } as Sandbox;
  const { id } = (await createJob(peer)).json;
  await new SandboxControl(url).setJob({ id, status: 'completed', prLink: true });
  expect((await getJob(peer, id)).json).toMatchObject({ status: 'completed', prLink: null });
  await sendMessage(peer, id);
  expect((await getJob(peer, id)).json.status).toBe('completed');
  child.kill();
  const wrong = start('--late-pr', 'soon');
  wrong.stderr.setEncoding('utf8');
  const [said] = await once(wrong.stderr, 'data');
  expect(said).toMatch(/^--late-pr must be a number of milliseconds or a string such as/);
  expect(await once(wrong, 'exit')).toEqual([1, null]);
});

test('the control over HTTP is the control in the process', async () => {
  const sandbox = await sandboxForTest();
  const control = new SandboxControl(sandbox.url);
  await control.addFault({ kind: 'status', status: 503, operation: 'create' });
  expect((await createJob(sandbox)).status).toBe(503);
  await createJob(sandbox, 'second');
  expect(await control.creates()).toEqual(await sandbox.creates());
  expect(await control.counts()).toMatchObject({ operations: (await sandbox.counts()).operations });
  expect(await control.expectedSnapshot({ projectId: 'a', dateFrom: '2026-01-01', dateTo: '2026-01-02' })).toEqual(
    await sandbox.expectedSnapshot({ projectId: 'a', dateFrom: '2026-01-01', dateTo: '2026-01-02' }),
  );
  await expect(control.setJob({ id: 'none' })).rejects.toThrow('no job none');
  await expect(control.setVisitors({ rows: -1 })).rejects.toThrow('rows');
});

test('any language can send a command as JSON, and learns what was wrong with it', async () => {
  const sandbox = await sandboxForTest();
  const counts = await fetch(`${sandbox.url}/__sandbox/counts`, { method: 'POST' });
  expect(await counts.json()).toMatchObject({ result: { operations: { create: { requests: 0 } } } });
  const wrong = await fetch(`${sandbox.url}/__sandbox/addFault`, { method: 'POST', body: '{"kind":"flood"}' });
  expect(wrong.status).toBe(400);
  expect(await wrong.json()).toEqual({ error: expect.stringContaining('kind') });
  const none = await fetch(`${sandbox.url}/__sandbox/toString`, { method: 'POST' });
  expect(none.status).toBe(404);
});

test('requests are counted by operation and answer, and the last ones shown without the key', async () => {
  const sandbox = await sandboxForTest({ keptRequests: 3 });
  const { id } = (await createJob(sandbox, 'hello')).json;
  for (let i = 0; i < 3; i++) await getJob(sandbox, id);
  await getJob(sandbox, 'none');
  await call(sandbox, 'DELETE', `/v2/agent/acme/job/${id}`);
  await sendMessage(sandbox, id, 'abc', { headers: { 'x-trace': '1' } });
  const { operations } = await sandbox.counts();
  expect(operations.create).toEqual({ requests: 1, effects: 1, responses: { 201: 1 } });
  expect(operations.get).toEqual({ requests: 4, effects: 3, responses: { 200: 3, 404: 1 } });
  expect(operations.other.responses).toEqual({ 404: 1 });
  const kept = await sandbox.requests();
  expect(kept.map(({ operation, response }) => [operation, response])).toEqual([
    ['get', '404'],
    [null, '404'],
    ['message', '200'],
  ]);
  expect(kept[2]).toMatchObject({
    method: 'POST',
    path: `/v2/agent/acme/job/${id}/message`,
    projectId: 'acme',
    jobId: id,
    bodyBytes: 16,
    tookEffect: true,
    headers: { 'x-trace': '1', authorization: '(set)' },
  });
  expect(JSON.stringify(kept)).not.toContain(sandbox.apiKey);
});

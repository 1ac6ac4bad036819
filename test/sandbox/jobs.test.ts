import { expect, test } from 'vitest';
import { call, createJob, getJob, sandboxForTest, sendMessage } from './support.js';

test('a created job is active without a pull request, then completed with one', async () => {
  const sandbox = await sandboxForTest({ clock: 'manual', script: { activeMs: 1_000 } });
  const created = await createJob(sandbox);
  expect(created.status).toBe(201);
  expect(created.json).toMatchObject({ status: 'active', prLink: null, archivedAt: null });
  await sandbox.advance(999);
  expect((await getJob(sandbox, created.json.id)).json.status).toBe('active');
  await sandbox.advance(1);
  const done = await getJob(sandbox, created.json.id);
  expect(done.status).toBe(200);
  expect(done.json).toMatchObject({ status: 'completed', prLink: 'https://github.example/acme/site/pull/1' });
});

test('a message shows the old status until its lag is over, then reopens the job and ends it again', async () => {
  const sandbox = await sandboxForTest({ clock: 'manual', script: { activeMs: 1_000, messageLagMs: 200 } });
  const { id } = (await createJob(sandbox)).json;
  await sandbox.advance(1_000);
  const sent = await sendMessage(sandbox, id);
  expect(sent.status).toBe(200);
  expect(sent.json.status).toBe('completed');
  await sandbox.advance(199);
  expect((await getJob(sandbox, id)).json.status).toBe('completed');
  await sandbox.advance(1);
  expect((await getJob(sandbox, id)).json).toMatchObject({ status: 'active', prLink: null });
  await sandbox.advance(1_000);
  expect((await getJob(sandbox, id)).json.status).toBe('completed');
});

test('a script names each step, unknown statuses, unknown and missing fields and huge records', async () => {
  const sandbox = await sandboxForTest({ clock: 'manual' });
  await sandbox.addScript({
    promptIncludes: 'strange',
    script: {
      steps: [
        { status: 'thinking', fields: { mood: 'good' }, omit: ['source'] },
        { status: 'active', padBytes: 70_000, afterMs: 10 },
        { status: 'archived', afterMs: 10 },
      ],
    },
  });
  const first = await createJob(sandbox, 'something strange');
  expect(first.json).toMatchObject({ status: 'thinking', mood: 'good' });
  expect(first.json).not.toHaveProperty('source');
  await sandbox.advance(10);
  expect((await getJob(sandbox, first.json.id)).text.length).toBeGreaterThan(70_000);
  await sandbox.advance(10);
  const archived = (await getJob(sandbox, first.json.id)).json;
  expect(archived.status).toBe('archived');
  expect(archived.archivedAt).toBe(await sandbox.now());
  expect((await createJob(sandbox, 'plain')).json.status).toBe('active');
});

test('steps can wait for reads, so that a test needs no clock', async () => {
  const sandbox = await sandboxForTest({
    script: { steps: [{}, { status: 'failed', afterReads: 2 }], notFoundReads: 1 },
  });
  const { id } = (await createJob(sandbox)).json;
  const seen = [];
  for (let i = 0; i < 4; i++) {
    const reply = await getJob(sandbox, id);
    seen.push(reply.status === 200 ? reply.json.status : reply.status);
  }
  expect(seen).toEqual([404, 'active', 'active', 'failed']);
});

test('a script without matches is for the next create alone', async () => {
  const sandbox = await sandboxForTest();
  await sandbox.addScript({ script: { steps: [{ status: 'failed' }] } });
  expect((await createJob(sandbox)).json.status).toBe('failed');
  expect((await createJob(sandbox)).json.status).toBe('active');
});

test('a job can be put into any state by hand, and taken away', async () => {
  const sandbox = await sandboxForTest({ script: { steps: [{}], followUp: 'ignore' } });
  const { id } = (await createJob(sandbox)).json;
  await sandbox.setJob({ id, status: 'completed', prLink: true });
  expect((await getJob(sandbox, id)).json).toMatchObject({
    status: 'completed',
    prLink: expect.stringContaining('/pull/1'),
  });
  await sendMessage(sandbox, id);
  expect((await getJob(sandbox, id)).json.status).toBe('completed');
  await sandbox.removeJob(id);
  expect((await getJob(sandbox, id)).status).toBe(404);
  expect((await sendMessage(sandbox, id)).status).toBe(404);
  await expect(sandbox.setJob({ id: 'none', status: 'failed' })).rejects.toThrow('no job none');
});

test('a project id with slashes, dots and question marks stays one segment', async () => {
  const sandbox = await sandboxForTest();
  for (const projectId of ['../x', 'a/b?c', 'ü %2F']) {
    const base = `/v2/agent/${encodeURIComponent(projectId)}/job`;
    const created = await call(sandbox, 'POST', base, { prompt: 'hello' });
    expect(created.status).toBe(201);
    expect((await call(sandbox, 'GET', `${base}/${created.json.id}`)).status).toBe(200);
    expect((await sandbox.creates({ projectId })).map(({ id }) => id)).toEqual([created.json.id]);
  }
  expect((await call(sandbox, 'POST', '/v2/agent/../x/job', { prompt: 'hello' })).status).toBe(404);
});

test('a job is found only in its own project', async () => {
  const sandbox = await sandboxForTest();
  const { id } = (await createJob(sandbox)).json;
  const foreign = await call(sandbox, 'GET', `/v2/agent/other/job/${id}`);
  expect(foreign.status).toBe(404);
  expect(foreign.json).toEqual({ error: 'Agent job not found' });
});

test.each([
  ['no JSON', '{"prompt":'],
  ['no object', '"prompt"'],
  ['no prompt', '{}'],
  ['an empty prompt', '{"prompt":""}'],
  ['a prompt that is no text', '{"prompt":1}'],
])('a create with %s is refused with an error and makes no job', async (_, rawBody) => {
  const sandbox = await sandboxForTest();
  const reply = await createJob(sandbox, '', { rawBody });
  expect(reply.status).toBe(400);
  expect(reply.json).toEqual({ error: expect.any(String) });
  expect((await sandbox.counts()).jobs).toBe(0);
});

test('creates and messages are recorded in order with their prompts, long ones by their hash', async () => {
  const sandbox = await sandboxForTest();
  const { id } = (await createJob(sandbox, 'first')).json;
  const long = 'y'.repeat(100_000);
  await createJob(sandbox, long);
  for (const prompt of ['one', 'two', 'three']) await sendMessage(sandbox, id, prompt);
  const [first, second] = await sandbox.creates();
  expect(first).toMatchObject({ id, projectId: 'acme', prompt: 'first', promptBytes: 5 });
  expect(second).toMatchObject({ promptBytes: 100_000, promptSha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(second?.prompt.length).toBe(4_096);
  expect((await sandbox.messages({ jobId: id })).map(({ prompt }) => prompt)).toEqual(['one', 'two', 'three']);
  expect(await sandbox.creates({ promptIncludes: 'irs' })).toHaveLength(1);
  expect(await sandbox.creates({ offset: 1, limit: 5 })).toHaveLength(1);
});

import { expect, test } from 'vitest';
import { call, createJob, getJob, sandboxForTest, sendMessage } from './support.js';

test('a created job is active without a pull request, then completed with one', async () => {
  let now = 0;
  const sandbox = await sandboxForTest({ clock: () => now, script: { activeMs: 1_000 } });
  const created = await createJob(sandbox);
  expect(created.status).toBe(201);
  expect(created.json).toMatchObject({ status: 'active', prLink: null, archivedAt: null });
  now = 999;
  expect((await getJob(sandbox, created.json.id)).json.status).toBe('active');
  now = 1_000;
  const done = await getJob(sandbox, created.json.id);
  expect(done.status).toBe(200);
  expect(done.json).toMatchObject({ status: 'completed', prLink: 'https://github.example/acme/site/pull/1' });
});

test('a message shows the old status until its lag is over, then reopens the job and ends it again', async () => {
  let now = 0;
  const sandbox = await sandboxForTest({ clock: () => now, script: { activeMs: 1_000, messageLagMs: 200 } });
  const { id } = (await createJob(sandbox)).json;
  now = 1_000;
  const sent = await sendMessage(sandbox, id);
  expect(sent.status).toBe(200);
  expect(sent.json.status).toBe('completed');
  now = 1_199;
  expect((await getJob(sandbox, id)).json.status).toBe('completed');
  now = 1_200;
  expect((await getJob(sandbox, id)).json).toMatchObject({ status: 'active', prLink: null });
  now = 2_200;
  expect((await getJob(sandbox, id)).json.status).toBe('completed');
});

test('steps have any status, and can wait for reads, so that a test needs no clock', async () => {
  const sandbox = await sandboxForTest();
  const steps = [{ status: 'thinking' }, { status: 'archived', afterReads: 2 }];
  await sandbox.addScript({ promptIncludes: 'strange', script: { steps } });
  const { id } = (await createJob(sandbox, 'something strange')).json;
  const seen = [];
  for (let i = 0; i < 3; i++) seen.push((await getJob(sandbox, id)).json);
  expect(seen.map(({ status }) => status)).toEqual(['thinking', 'thinking', 'archived']);
  expect(seen.map(({ archivedAt }) => archivedAt)).toEqual([null, null, expect.any(String)]);
  expect((await createJob(sandbox, 'plain')).json.status).toBe('active');
});

test('a job can be put into any state by hand', async () => {
  const sandbox = await sandboxForTest({ script: { steps: [{}], followUp: 'ignore' } });
  const { id } = (await createJob(sandbox)).json;
  await sandbox.setJob({ id, status: 'completed', prLink: true });
  expect((await getJob(sandbox, id)).json).toMatchObject({
    status: 'completed',
    prLink: expect.stringContaining('/pull/1'),
  });
  await sendMessage(sandbox, id);
  expect((await getJob(sandbox, id)).json.status).toBe('completed');
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

test('creates and messages are recorded in order with their prompts, long ones by their beginning', async () => {
  const sandbox = await sandboxForTest();
  const { id } = (await createJob(sandbox, 'first')).json;
  await createJob(sandbox, 'y'.repeat(100_000));
  for (const prompt of ['one', 'two', 'three']) await sendMessage(sandbox, id, prompt);
  const [first, second] = await sandbox.creates();
  expect(first).toMatchObject({ id, projectId: 'acme', prompt: 'first' });
  expect(second?.prompt.length).toBe(4_096);
  expect((await sandbox.messages({ jobId: id })).map(({ prompt }) => prompt)).toEqual(['one', 'two', 'three']);
  expect(await sandbox.creates({ promptIncludes: 'irs' })).toHaveLength(1);
});

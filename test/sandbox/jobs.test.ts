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

test('a late pull request shows some time after the job was completed, also after a message', async () => {
  let now = 0;
  const script = { steps: [{ prLink: true }, { status: 'completed', prLink: true, afterMs: 1_000 }], prLinkLagMs: 500 };
  const sandbox = await sandboxForTest({ clock: () => now, script: { ...script, messageLagMs: 200 } });
  const { id } = (await createJob(sandbox)).json;
  const at = async (time: number) => {
    now = time;
    const { status, prLink } = (await getJob(sandbox, id)).json;
    return [status, prLink !== null];
  };
  expect([await at(999), await at(1_499), await at(1_500)]).toEqual([
    ['active', false],
    ['completed', false],
    ['completed', true],
  ]);
  await sendMessage(sandbox, id);
  // The default life after a message: active for four seconds.
  expect([await at(1_699), await at(1_700), await at(6_199), await at(6_200)]).toEqual([
    ['completed', true],
    ['active', false],
    ['completed', false],
    ['completed', true],
  ]);
});

const A = 'https://github.example/acme/site/pull/7';

test.each([
  ['blank', ['', ' ']],
  ['several', [[A, `${A}0`], { url: A }, { pulls: [{ url: A, number: 7 }], draft: false }]],
  ['each another', [A, null, `${A}0`, A]],
])('a script says what each read shows, status words and links of any kind: %s', async (_, links) => {
  const sandbox = await sandboxForTest();
  const words = ['Completed', 'failed', 'active', 'cancelled '];
  const shown = links.map((prLink, i) => ({ status: words[i]!, prLink }));
  const steps = shown.map((step, i) => (i === 0 ? step : { ...step, afterReads: 1 }));
  await sandbox.addScript({ script: { steps: [{}], followUp: steps, messageLagMs: 0 } });
  const { id } = (await createJob(sandbox)).json;
  expect((await sendMessage(sandbox, id)).json).toMatchObject(shown[0]!);
  for (const step of shown) expect((await getJob(sandbox, id)).json).toMatchObject(step);
});

test('the ids of a script may be whole numbers', async () => {
  const sandbox = await sandboxForTest({ script: { numericId: true } });
  expect((await createJob(sandbox)).json.id).toBe(1);
  expect((await createJob(sandbox)).json.id).toBe(2);
  expect((await getJob(sandbox, '2')).json.id).toBe(2);
  expect((await sandbox.creates()).map(({ id }) => id)).toEqual(['1', '2']);
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

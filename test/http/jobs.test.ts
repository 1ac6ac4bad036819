/** A job's life over HTTP, under both of its addresses. */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test, vi } from 'vitest';
import { agentJobWorkflowId } from '../../src/contract.js';
import { QUICK } from '../client/job-server.js';
import { type HttpJobServer, startHttpJobServer } from './http-server.js';
import { useForFile } from '../support/use.js';

const PATIENCE = { timeout: 120_000, interval: 300 };

const server = useForFile(startHttpJobServer);
let jobsPath: string;
beforeAll(async () => {
  jobsPath = `/v1/projects/${server.projectId}/jobs`;
});

/** Reads once more if the worker, on a busy machine, took longer than a query waits. */
const send: HttpJobServer['bench']['send'] = async (path, options) => {
  const answer = await server.bench.send(path, options);
  const isReadInVain = answer.status === 504 && options?.method === undefined;
  return isReadInVain ? server.bench.send(path, options) : answer;
};
const post = (path: string, body: unknown = '', headers: Record<string, string> = {}) =>
  send(path, { body, headers, method: 'POST' });
const start = (key: string, body: object) => post(jobsPath, { ...QUICK, ...body }, { 'idempotency-key': key });
const idOf = (workflowId: string) => Buffer.from(workflowId).toString('base64url');

/** Runs until it is cancelled. */
async function endless(): Promise<string> {
  const prompt = `endless ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
  return prompt;
}

test('a start repeated under its Idempotency-Key makes no second job; with another prompt it conflicts', async () => {
  const key = `owner/repo@${randomUUID()}`;
  const first = await start(key, { prompt: 'once' });
  const workflowId = agentJobWorkflowId(server.projectId, key);
  expect(first.status).toBe(201);
  expect(first.body).toMatchObject({ key, workflowId, isNew: true, state: { projectId: server.projectId } });
  expect(first.headers.get('location')).toBe(`/v1/jobs/${idOf(workflowId)}`);
  const again = await start(key, { prompt: 'once' });
  expect([again.status, again.body.isNew, again.body.workflowId]).toEqual([200, false, workflowId]);
  const quoted = await start(JSON.stringify(key), { prompt: 'once' });
  expect([quoted.status, quoted.body.key]).toEqual([200, key]);
  const other = await start(key, { prompt: 'something else' });
  expect([other.status, other.body]).toMatchObject([422, { code: 'KEY_CONFLICT', retryable: false, status: 422 }]);
  expect(other.headers.get('content-type')).toBe('application/problem+json');
  await send(first.headers.get('location')!, { headers: { prefer: 'wait=30' } });
  expect(await server.sandbox.creates({ projectId: server.projectId })).toHaveLength(1);
});

test('a job is read under both addresses, and with Prefer: wait when it is over', async () => {
  const key = `a/b?c#d%2F ${randomUUID()} ü-T04:30:00Z`;
  const sent = Buffer.from(key).toString('latin1');
  const location = (await start(sent, { prompt: 'read me' })).headers.get('location')!;
  const answers = await Promise.all(
    // A colon may be encoded in a path, or not.
    [encodeURIComponent(key), encodeURIComponent(key).replaceAll('%3A', ':')]
      .map((part) => `${jobsPath}/${part}`)
      .concat(location)
      .map((path) => send(path, { headers: { prefer: 'respond-async, wait=40' } })),
  );
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect(body).toMatchObject({ key, state: { phase: 'done' }, result: { outcome: 'completed' } });
    expect(body.result.job.prLink).toMatch(/^http/);
  }
});

test('a running job has no result; a wait that is none, or no number, is none', async () => {
  const location = (await start(randomUUID(), { prompt: await endless() })).headers.get('location')!;
  for (const prefer of ['wait=1', 'wait=NaN', 'wait=', 'wait=-5', 'wait=1e9', 'handling=lenient']) {
    const { status, body } = await send(location, { headers: { prefer } });
    expect([status, body.result]).toEqual([200, null]);
  }
});

test('a follow-up is queued at once, or answered with its outcome; its id is sent once, with one prompt', async () => {
  const location = (await start(randomUUID(), { prompt: await endless() })).headers.get('location')!;
  const path = `${location}/follow-ups`;
  const sent = await post(path, { prompt: 'more', id: 'one' }, { prefer: 'wait=40' });
  expect([sent.status, sent.body]).toMatchObject([200, { id: 'one', state: 'sent' }]);
  const queued = await post(path, { prompt: 'and more', priority: 1 }, { 'idempotency-key': 'two' });
  expect([queued.status, queued.body]).toEqual([202, { id: 'two', state: 'queued', checked: true }]);
  const again = await post(path, { prompt: 'and more' }, { 'idempotency-key': 'two', prefer: 'wait=40' });
  expect([again.status, again.body]).toMatchObject([200, { id: 'two', state: 'sent' }]);
  const other = await post(path, { prompt: 'another', id: 'two' }, { prefer: 'wait=40' });
  expect([other.status, other.body.code]).toEqual([422, 'FOLLOW_UP_CONFLICT']);
  const unasked = await post(path, { prompt: 'another' }, { 'idempotency-key': 'two' });
  expect([unasked.status, unasked.body.code]).toEqual([422, 'FOLLOW_UP_CONFLICT']);
  const half = await post(path, { prompt: 'x', id: '\ud800' }, { prefer: 'wait=5' });
  expect([half.status, half.body.detail]).toMatchObject([422, expect.stringContaining('id must be well-formed')]);
});

test('a cancelled job is answered as a failure, with who asked in history', async () => {
  const location = (await start(randomUUID(), { prompt: await endless() })).headers.get('location')!;
  await vi.waitFor(async () => expect((await send(location)).body.state.jobId).not.toBeNull(), PATIENCE);
  const polled = await send(`${location}/poll-now`, { method: 'POST' });
  expect([polled.status, polled.body]).toEqual([202, {}]);
  const canceled = await send(`${location}/cancel`, { method: 'POST' });
  expect([canceled.status, canceled.body]).toEqual([202, {}]);
  const { body } = await send(location, { headers: { prefer: 'wait=40' } });
  expect(body.failure).toMatchObject({ type: 'Canceled', details: null });
  const { events } = await server.client.workflow.getHandle(body.workflowId).fetchHistory();
  const by = events?.flatMap((event) => event.workflowExecutionCancelRequestedEventAttributes?.identity ?? []);
  expect(by).toEqual(['own']);
  const late = await send(`${location}/poll-now`, { method: 'POST' });
  expect([late.status, late.body.code]).toEqual([409, 'JOB_ENDED']);
  expect((await send(`${location}/cancel`, { method: 'POST' })).status).toBe(202);
});

test('a write in doubt is resolved if the action fits, and no other is', async () => {
  const prompt = `in doubt ${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'status', status: 500, effect: 'before', promptIncludes: prompt, count: 1 });
  const location = (await start(randomUUID(), { prompt })).headers.get('location')!;
  await vi.waitFor(async () => expect((await send(location)).body.state.phase).toBe('needsAttention'), PATIENCE);
  const wrong = await post(`${location}/resolve`, { action: 'delivered' });
  expect([wrong.status, wrong.body.code]).toEqual([409, 'MESSAGE_REFUSED']);
  const misspelt = await post(`${location}/resolve`, { action: 'retry', sinse: 'x' });
  expect([misspelt.status, misspelt.body.detail]).toMatchObject([422, expect.stringMatching(/known are .*since/)]);
  const settled = await post(`${location}/resolve`, { action: 'retry', note: 'looked' });
  expect(settled.status).toBe(200);
  expect(settled.body.decisions).toMatchObject([{ action: 'retry', by: 'own', note: 'looked' }]);
});

test("whatever a caller writes as by, a decision has the key's own name first", async () => {
  const prompt = `in doubt ${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'status', status: 500, effect: 'before', promptIncludes: prompt, count: 4 });
  const location = (await start(randomUUID(), { prompt })).headers.get('location')!;
  const written = [undefined, null, 'Ann', 'é'.repeat(100)];
  for (const [i, by] of written.entries()) {
    const inDoubt = { phase: 'needsAttention', decisions: { length: i } };
    await vi.waitFor(async () => expect((await send(location)).body.state).toMatchObject(inDoubt), PATIENCE);
    for (const wrong of [{ toString: 1 }, 7, 'a\nb']) {
      const { status, body } = await post(`${location}/resolve`, { action: 'retry', by: wrong });
      expect([status, body.detail]).toMatchObject([422, expect.stringMatching(/^by must/)]);
    }
    const { status, body } = await post(`${location}/resolve`, { action: i < 3 ? 'retry' : 'abandon', by });
    expect(status).toBe(200);
    const told = ['own', 'own', 'own: Ann', `own: ${'é'.repeat(97)}`];
    expect(body.decisions.map((decision: { by: string }) => decision.by)).toEqual(told.slice(0, i + 1));
  }
});

test('what ended since a time is listed with its run and the time of its end', async () => {
  const [key, since] = [randomUUID(), new Date().toISOString()];
  const { workflowId } = (await start(key, { prompt: await endless(), batch: key })).body;
  await server.client.workflow.getHandle(workflowId).terminate();
  const list = async (time: string) => (await send(`${jobsPath}?batch=${key}&endedAfter=${time}`)).body.jobs;
  const end = { key, workflowId, runId: expect.any(String), endedAt: expect.any(String), outcome: 'Terminated' };
  await vi.waitFor(async () => expect(await list(since)).toMatchObject([end]), PATIENCE);
  expect(await list(new Date(Date.now() + 60_000).toISOString())).toEqual([]);
});

test('jobs are listed by filter, page by page', async () => {
  const batch = randomUUID();
  for (const name of ['a', 'b', 'c'])
    await start(`${batch}-${name}`, { prompt: await endless(), batch, tags: ['x', name] });
  const keysOf = (body: { jobs: { key: string }[] }) => body.jobs.map(({ key }) => key.slice(-1)).toSorted();
  const list = (query: string) => send(`${jobsPath}?batch=${batch}&${query}`);
  await vi.waitFor(async () => expect(keysOf((await list('')).body)).toEqual(['a', 'b', 'c']), PATIENCE);
  expect(keysOf((await list('tag=x&tag=b')).body)).toEqual(['b']);
  expect(keysOf((await list('outcome=completed')).body)).toEqual([]);
  const first = (await list('limit=2')).body;
  const second = (await list(`limit=2&cursor=${first.nextCursor}`)).body;
  expect(keysOf({ jobs: [...first.jobs, ...second.jobs] })).toEqual(['a', 'b', 'c']);
  expect(second.nextCursor).toBeNull();
});

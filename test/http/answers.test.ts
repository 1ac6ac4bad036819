/** Real answers against the OpenAPI document: each has the shape that generated clients expect, and no other field. */
import { randomUUID } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { openApi } from '../../src/http/openapi.js';
import { QUICK } from '../client/job-server.js';
import { closed } from '../contract/closed.js';
import { newValidator } from '../contract/validator.js';
import { startHttpJobServer } from './http-server.js';
import { useForFile } from '../support/use.js';

const PATIENCE = { timeout: 120_000, interval: 300 };
const { paths, components } = closed(openApi('1.2.3')) as {
  paths: Record<string, Record<string, { responses: Record<string, { content: Record<string, { schema: object }> }> }>>;
  components: object;
};
const validator = newValidator({ isStandard: false });

const server = useForFile(startHttpJobServer);

type Path = '/jobs' | '/jobs/{key}' | `/jobs/{key}/${string}`;

/** Sends a request of the document, and holds the answer against its schema. */
async function ask(method: 'get' | 'post', path: Path, key: string, options: Parameters<typeof server.bench.send>[1]) {
  const url = `/v1/projects/${server.projectId}${path.replace('{key}', key)}`;
  const answer = await server.bench.send(url, { method: method.toUpperCase(), ...options });
  const { responses } = paths[`/v1/projects/{projectId}${path}`]![method]!;
  const type = answer.headers.get('content-type')!;
  const schema = (responses[answer.status] ?? responses['default'])!.content[type]!.schema;
  validator.validate({ ...schema, components }, answer.body);
  expect([url, answer.status, validator.errors ?? answer.body]).toEqual([url, answer.status, answer.body]);
  return answer;
}

const start = (key: string, body: object) =>
  ask('post', '/jobs', key, { body: { ...QUICK, ...body }, headers: { 'idempotency-key': key } });
const read = (key: string, wait = 0) => ask('get', '/jobs/{key}', key, { headers: { prefer: `wait=${wait}` } });

test('a completed job has a result, its outcome and its pull request', async () => {
  const key = randomUUID();
  const started = await start(key, { prompt: 'do it', tags: ['x'], metadata: { a: 'b' } });
  expect([started.status, started.body]).toMatchObject([201, { key, isNew: true, url: null }]);
  const { body } = await read(key, 40);
  expect(body).toMatchObject({ key, outcome: 'completed', result: { outcome: 'completed' }, failure: null });
  expect(body.prLink).toMatch(/^http/);
  expect([body.prLink, body.result.prLink]).toEqual([body.state.prLink, body.state.prLink]);
  expect((await start(key, { prompt: 'do it', tags: ['x'], metadata: { a: 'b' } })).status).toBe(200);
  expect((await ask('get', '/jobs', key, {})).body.jobs.length).toBeGreaterThan(0);
  expect((await ask('get', '/jobs/{key}', 'none', {})).status).toBe(404);
});

test('a running job has neither result nor failure, a cancelled and a rejected one a failure alone', async () => {
  const key = randomUUID();
  await server.sandbox.addScript({ promptIncludes: key, script: { activeMs: 3_600_000 } });
  await start(key, { prompt: `endless ${key}` });
  await vi.waitFor(async () => expect((await read(key)).body.state.jobId).not.toBeNull(), PATIENCE);
  expect((await read(key)).body).toMatchObject({ outcome: null, result: null, failure: null });
  const queued = await ask('post', '/jobs/{key}/follow-ups', key, { body: { prompt: 'more', id: 'one' } });
  expect(queued.status).toBe(202);
  const sent = { body: { prompt: 'more', id: 'one' }, headers: { prefer: 'wait=40' } };
  expect((await ask('post', '/jobs/{key}/follow-ups', key, sent)).body).toMatchObject({ id: 'one', state: 'sent' });
  expect((await ask('post', '/jobs/{key}/poll-now', key, {})).status).toBe(202);
  expect((await ask('post', '/jobs/{key}/cancel', key, {})).status).toBe(202);
  const canceled = { outcome: 'Canceled', result: null, failure: { type: 'Canceled', details: null } };
  expect((await read(key, 40)).body).toMatchObject(canceled);

  const rejected = randomUUID();
  const fault = { kind: 'status', status: 400, body: { error: 'no' }, promptIncludes: rejected, count: 1 } as const;
  await server.sandbox.addFault(fault);
  await start(rejected, { prompt: `rejected ${rejected}` });
  const failure = { type: 'CreateRejected', details: { status: 400 } };
  expect((await read(rejected, 40)).body).toMatchObject({ outcome: 'CreateRejected', result: null, failure });
});

test('a write in doubt is resolved by its time, in whichever way a client writes that', async () => {
  const key = randomUUID();
  const doubt = { kind: 'status', status: 500, effect: 'before', promptIncludes: key, count: 2 } as const;
  await server.sandbox.addFault(doubt);
  await start(key, { prompt: `in doubt ${key}` });
  const resolve = (since: string) =>
    ask('post', '/jobs/{key}/resolve', key, { body: { action: 'retry', since, note: 'checked' } });
  const write = (decisions: number) =>
    vi.waitFor(async () => {
      const { state } = (await read(key)).body;
      expect(state).toMatchObject({ phase: 'needsAttention', decisions: { length: decisions } });
      return String(state.unknown.since);
    }, PATIENCE);
  const since = await write(0);
  expect((await resolve(new Date(Date.parse(since) - 1).toISOString())).status).toBe(409);
  expect((await resolve('soon')).status).toBe(409);
  expect((await resolve(since.replace('Z', '000+00:00'))).status).toBe(200);
  expect((await resolve(await write(1))).status).toBe(200);
});

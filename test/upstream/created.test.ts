/** Which job a create has made, by its answer. */
import type net from 'node:net';
import { describe, expect, test } from 'vitest';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { clientOf, http, KEY, RawUpstream, setUp } from './raw-upstream.js';

const PATH = '/v2/agent/p%201/job';

type Answer = string | ((raw: RawUpstream, socket: net.Socket) => string | void);

/** What becomes of a create of project `p 1`. */
async function created(answer: Answer, path = ''): Promise<{ outcome: WriteOutcome; requests: number }> {
  const raw: RawUpstream = await RawUpstream.onRequest((_, socket) =>
    typeof answer === 'string' ? answer : answer(raw, socket),
  );
  const outcome = await clientOf(`${raw.url}${path}`).createJob({ projectId: 'p 1', prompt: 'do it' });
  return { outcome, requests: raw.requests.length };
}

const at = (location: string, status = 202, body: unknown = '') => http(status, body, { location });
const cut = (location: string) => (_: unknown, socket: net.Socket) =>
  void socket.end(`HTTP/1.1 201 X\r\nlocation: ${location}\r\ncontent-length: 99\r\n\r\n{"id":"ab`);

describe('a create that was answered with the id of its job is accepted', () => {
  const record = { status: 'active', source: null, model: null, prLink: null, createdAt: null, archivedAt: null };
  const read = (id: string) => ({ job: { id, ...record }, end: null });

  test.each<[string, Answer, string, object]>([
    ['a whole number', http(201, { id: 1, status: 'active' }), '1', read('1')],
    ['0', http(201, { id: 0 }), '0', { job: null }],
    ['inside of `job`', http(201, { job: { id: 'abc', status: 'active' } }), 'abc', read('abc')],
    ['a number inside of `job`', http(201, { job: { id: 7 }, ok: true }), '7', { job: null }],
    ['in both, once as a number', http(201, { id: '1', job: { id: 1, status: 'active' } }), '1', read('1')],
    ['beside a `job` that is none', http(201, { id: 'abc', status: 'active', job: null }), 'abc', read('abc')],
    ['beside a `job` without one', http(201, { id: 'abc', status: 'active', job: {} }), 'abc', read('abc')],
    ['in both, once without a status', http(201, { id: '1', status: 'active', job: { id: 1 } }), '1', read('1')],
    ['in the body and in `Location`', at(`${PATH}/1`, 201, { id: 1, status: 'active' }), '1', read('1')],
    ['in the body, with a `Location` of something else', at('/runs/5', 201, { id: 'abc' }), 'abc', { job: null }],
  ])('%s', async (_, answer, jobId, shown) => {
    const { outcome, requests } = await created(answer);
    expect(outcome).toEqual({ kind: 'accepted', jobId, ...shown });
    expect(requests).toBe(1);
  });

  test.each<[string, Answer, string]>([
    ['a path', at(`${PATH}/abc`), 'abc'],
    ['an address', (raw) => at(`${raw.url}${PATH}/abc`), 'abc'],
    ['an address with a query', (raw) => at(`${raw.url}${PATH}/abc?token=1#top`), 'abc'],
    ['a path that is relative to the base address', at('v2/agent/p%201/job/abc'), 'abc'],
    ['an id that is encoded', at(`${PATH}/a%2Fb%3a`), 'a/b:'],
    ['201 without a body', at(`${PATH}/abc`, 201), 'abc'],
    ['a page', at(`${PATH}/abc`, 200, '<html>'), 'abc'],
    ['JSON that is no record', at(`${PATH}/abc`, 200, [1]), 'abc'],
    ['a record without an id', at(`${PATH}/abc`, 200, { id: null, status: 'active' }), 'abc'],
    ['204', () => `HTTP/1.1 204 X\r\nlocation: ${PATH}/abc\r\n\r\n`, 'abc'],
    ['a body that breaks off', cut(`${PATH}/abc`), 'abc'],
    ['303', at(`${PATH}/abc`, 303), 'abc'],
  ])('by `Location` alone: %s', async (_, answer, jobId) => {
    const { outcome, requests } = await created(answer);
    expect(outcome).toEqual({ kind: 'accepted', jobId, job: null });
    expect(requests).toBe(1);
  });

  test('by `Location`, below the path of the base address', async () => {
    const accepted = { kind: 'accepted', jobId: 'abc', job: null };
    for (const path of ['/some/prefix', '/some/prefix/']) {
      expect((await created(at(`/some/prefix${PATH}/abc`), path)).outcome).toEqual(accepted);
      expect((await created(at('v2/agent/p%201/job/abc'), path)).outcome).toEqual(accepted);
      expect((await created(at(`${PATH}/abc`), path)).outcome).toMatchObject({ kind: 'inDoubt' });
    }
  });

  test('also where the answer came before the last byte of the request', async () => {
    const { outcome } = await early(at(`${PATH}/abc`));
    expect(outcome).toMatchObject({ kind: 'accepted', jobId: 'abc' });
    expect((await early(at(`${PATH}/abc`, 303))).outcome).toMatchObject({ kind: 'accepted', jobId: 'abc' });
  });
});

/** Answers before the last byte. */
async function early(answer: string): Promise<{ outcome: WriteOutcome }> {
  const raw = await RawUpstream.answeringEarly(answer);
  return { outcome: await clientOf(raw.url).createJob({ projectId: 'p 1', prompt: 'do it' }) };
}

describe('a create whose 2xx does not say which job it made is in doubt, and is not sent again by itself', () => {
  test.each<[string, Answer]>([
    ['nothing', http(202, '')],
    ['a page', http(200, '<html>')],
    ['204', () => 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['a body that breaks off', (_, s) => void s.end('HTTP/1.1 201 X\r\ncontent-length: 99\r\n\r\n{"id":"abc"}')],
    ['`job: null`', http(201, { job: null })],
    ['a `job` that is a text', http(201, { job: 'abc' })],
    ['a list', http(201, [{ id: 'abc' }])],
    ['an id that JSON rounds', http(201, '{"id":9007199254740993}')],
    ['an id over all whole numbers', http(201, '{"id":1e21}')],
    ['an id with a fraction', http(201, { id: 1.5 })],
    ['an id that is true', http(201, { id: true })],
    ['an id of blanks', http(201, { id: ' ' })],
    ['an id of dots', http(201, { id: '..' })],
    ['a number that is no id beside one that is', http(201, '{"id":1e21,"job":{"id":"abc"}}')],
    ['two ids', http(201, { id: 'abc', job: { id: 'other', status: 'active' } })],
    ['another id in `Location`', at(`${PATH}/other`, 201, { id: 'abc' })],
    ['another id in `Location`, inside of `job`', at(`${PATH}/2`, 201, { job: { id: 1 } })],
    ['an id that is none, and one in `Location`', at(`${PATH}/9007199254740993`, 201, '{"id":9007199254740993}')],
  ])('%s', async (_, answer) => {
    const { outcome, requests } = await created(answer);
    expect(outcome).toMatchObject({ kind: 'inDoubt', asksBeforeRetry: true });
    expect(requests).toBe(1);
  });

  test.each([
    ['another project', '/v2/agent/other/job/abc'],
    ['another origin', `https://127.0.0.1${PATH}/abc`],
    ['another host', `//other.host${PATH}/abc`],
    ['credentials', `//user:secret@127.0.0.1${PATH}/abc`],
    ['a path before it', `/v1${PATH}/abc`],
    ['a path after it', `${PATH}/abc/message`],
    ['a slash at its end', `${PATH}/abc/`],
    ['no id', `${PATH}/`],
    ['dots', `${PATH}/%2e%2e`],
    ['an encoding that is none', `${PATH}/%zz`],
    ['a line break', `${PATH}/a%0ab`],
    ['a blank', `${PATH}/a b`],
    ['a tab', `${PATH}/a\tb`],
    ['letters that are not ASCII', `${PATH}/é`],
    ['10 KiB', `${PATH}/${'x'.repeat(10_000)}`],
    ['only a part of it', 'abc'],
    ['no address', 'http://[abc'],
    ['nothing', ''],
  ])('a `Location` with %s', async (_, location) => {
    for (const status of [202, 303]) {
      const { outcome, requests } = await created(at(location, status));
      expect(outcome).toMatchObject({ kind: 'inDoubt', asksBeforeRetry: true });
      expect(JSON.stringify(outcome).length).toBeLessThan(500);
      expect(JSON.stringify(outcome)).not.toMatch(/secret|user/);
      expect(requests).toBe(1);
    }
  });

  test('two `Location`s that differ', async () => {
    const two = at(`${PATH}/abc`).replace('\r\n', `\r\nlocation: ${PATH}/other\r\n`);
    expect((await created(two)).outcome).toMatchObject({ kind: 'inDoubt' });
    const twice = at(`${PATH}/abc`).replace('\r\n', `\r\nlocation: ${PATH}/abc\r\n`);
    expect((await created(twice)).outcome).toMatchObject({ kind: 'accepted', jobId: 'abc' });
  });

  test('and shows where `Location` points to, without its query and without the key', async () => {
    const { outcome } = await created(at(`https://app.example/tasks/7/${KEY}?token=secret`));
    const reason = 'answer is not an agent job: it is empty';
    expect(outcome).toEqual({
      ...{ kind: 'inDoubt', asksBeforeRetry: true, reason },
      text: '; Location: https://app.example/tasks/7/***',
    });
  });
});

test('a 2xx that came before the last byte does not show that a job was made', async () => {
  const { outcome } = await early(http(200, ''));
  expect(outcome).toEqual({ kind: 'inDoubt', reason: 'answer is not an agent job: it is empty' });
});

describe('a record of a job that is read or comes with a message', () => {
  test.each([
    ['has a number for its id', { id: 7, status: 'active' }],
    ['is inside of `job`', { job: { id: '7', status: 'active' } }],
    ['is inside of `job` beside another id', { id: 'request-1', job: { id: 7, status: 'active' } }],
    ['is beside a `job` with its id alone', { id: '7', status: 'active', job: { id: 7 } }],
    ['is inside of `job`, and its id beside it', { id: 7, job: { id: '7', status: 'active' } }],
    ['has a field `job` of its own', { id: '7', status: 'active', job: { id: 'ci', status: 'failed' } }],
  ])('is that of its job where it %s', async (_, answer) => {
    const { client } = await setUp(() => http(200, answer));
    const job = { id: '7', status: 'active' };
    expect(await client.getJob({ projectId: 'p', jobId: '7' })).toMatchObject({ job });
    expect(await client.sendMessage({ projectId: 'p', jobId: '7', prompt: 'x' })).toMatchObject({ job });
  });
});

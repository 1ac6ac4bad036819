import diagnostics from 'node:diagnostics_channel';
import { gzipSync } from 'node:zlib';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { UpstreamSettings } from '../../src/upstream/client.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import {
  clientOf,
  compressed,
  COMPRESSIONS,
  CREATED,
  http,
  JOB,
  KEY,
  RawUpstream,
  rejectionOf,
  setUp as setUpUpstream,
  until,
  type Answer,
} from './raw-upstream.js';

const JOB_ID = 'j/1';

async function setUp(serve: Answer, settings: Partial<UpstreamSettings> = {}) {
  const { raw, client, classes } = await setUpUpstream(serve, settings);
  return {
    raw,
    classes,
    create: () => client.createJob({ projectId: 'p 1', prompt: 'do it' }),
    message: () => client.sendMessage({ projectId: 'p 1', jobId: JOB_ID, prompt: 'do more' }),
  };
}

const ACCEPTED_UNREAD = { kind: 'accepted', jobId: JOB_ID, job: null };
const record = { source: null, model: null, prLink: null, createdAt: null, archivedAt: null };

describe('a write that is answered', () => {
  test('sends one request with a declared length, a closed connection and the ids percent-encoded', async () => {
    const answers = [http(201), http(200, { ...JOB, id: JOB_ID })];
    const { raw, create, message, classes } = await setUp(() => answers.shift());
    const shown = { ...JOB, ...record };
    expect(await create()).toEqual({ kind: 'accepted', jobId: JOB.id, job: shown, end: null });
    expect(await message()).toEqual({ kind: 'accepted', jobId: JOB_ID, job: { ...shown, id: JOB_ID }, end: null });
    expect(raw.requests.map(({ line }) => line)).toEqual([
      'POST /v2/agent/p%201/job HTTP/1.1',
      'POST /v2/agent/p%201/job/j%2F1/message HTTP/1.1',
    ]);
    const { headers, body } = raw.requests[0]!;
    expect(headers).toMatchObject({
      'accept-encoding': 'identity',
      authorization: `Bearer ${KEY}`,
      connection: 'close',
      'content-type': 'application/json',
    });
    expect(headers).not.toHaveProperty('transfer-encoding');
    expect(headers['content-length']).toBe(String(body.length));
    expect(JSON.parse(body)).toEqual({ prompt: 'do it' });
    expect(classes).toEqual(['create 2xx', 'message 2xx']);
  });

  test('keeps the path of the base URL', async () => {
    const { raw } = await setUp(() => http(200));
    await clientOf(`${raw.url}/some/prefix/`).createJob({ projectId: 'p', prompt: 'x' });
    expect(raw.requests[0]!.line).toBe('POST /some/prefix/v2/agent/p/job HTTP/1.1');
  });

  test('a write and a read give a record in the same order of fields: the first poll finds no change', async () => {
    const { raw, create } = await setUp(() => http(200, JOB));
    const client = clientOf(raw.url);
    const read = await client.getJob({ projectId: 'p', jobId: JOB.id });
    await client.close();
    const created = await create();
    expect(JSON.stringify('job' in created && created.job)).toBe(JSON.stringify(read.job));
  });

  test('returns the record with the fields of the contract and no others', async () => {
    const answer = {
      ...JOB,
      source: { repository: 'a/b', ref: null, extra: 1 },
      model: 5,
      prLink: 'https://pr',
      createdAt: '2026-01-01T00:00:00Z',
      surprise: true,
    };
    const { create } = await setUp(() => http(202, answer));
    expect(await create()).toHaveProperty('job', {
      ...JOB,
      source: { repository: 'a/b', ref: null },
      model: null,
      prLink: 'https://pr',
      createdAt: '2026-01-01T00:00:00Z',
      archivedAt: null,
    });
  });

  test('a 2xx to a message is proof even where its body cannot be read, or is the record of another job', async () => {
    const bodies = [JSON.stringify(JOB), '', '{"id":', 'null', '[]', '{"status":"active"}', '<html>'];
    for (const body of bodies) {
      const { message, classes } = await setUp(() => http(200, body));
      expect(await message(), body).toEqual(ACCEPTED_UNREAD);
      expect(classes).toEqual(['message malformed']);
    }
  });

  test('a 2xx to a message is proof even where its body never ends or is cut off', async () => {
    const half = 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"id":';
    const stalled = await setUp(() => half, { timeoutMs: 3_000 });
    expect(await stalled.message()).toEqual(ACCEPTED_UNREAD);
    const cut = await setUp((_, socket) => void socket.end(half));
    expect(await cut.message()).toEqual(ACCEPTED_UNREAD);
    expect([...stalled.classes, ...cut.classes]).toEqual(['message timeout', 'message reset']);
  });
});

type Case = [what: string, serve: Answer, outcome: Partial<WriteOutcome>];

const cases: Case[] = [
  ['429 without a wait', () => http(429, ''), { kind: 'throttled' }],
  ['429 with seconds', () => http(429, '', { 'retry-after': '7' }), { kind: 'throttled', retryAfterMs: 7_000 }],
  ['429 with a day', () => http(429, '', { 'retry-after': '86400' }), { kind: 'throttled', retryAfterMs: 3_600_000 }],
  [
    '429 with a date, by the answer’s own',
    () => http(429, '', { date: 'Thu, 01 Jan 2026 12:00:00 GMT', 'retry-after': 'Thu, 01 Jan 2026 12:00:30 GMT' }),
    { kind: 'throttled', retryAfterMs: 30_000 },
  ],
  ['429 with garbage', () => http(429, '', { 'retry-after': '-5 soon' }), { kind: 'throttled' }],
  [
    '400 with an error',
    () => http(400, { error: 'bad prompt' }),
    { kind: 'rejected', status: 400, error: 'bad prompt' },
  ],
  ['404 with text', () => http(404, 'no such project'), { kind: 'rejected', status: 404, error: 'no such project' }],
  ['401 with nothing', () => http(401, ''), { kind: 'unauthorized', reason: 'upstream answered 401' }],
  ['403', () => http(403, { error: 'no scope' }), { kind: 'unauthorized', reason: 'upstream answered 403' }],
  ['408', () => http(408, ''), { kind: 'inDoubt', reason: 'upstream answered 408' }],
  ['500', () => http(500, { error: 'oops' }), { kind: 'inDoubt', reason: 'upstream answered 500' }],
  ['503', () => http(503, ''), { kind: 'inDoubt', reason: 'upstream answered 503' }],
  ['a reset after the request', (_, socket) => void socket.resetAndDestroy(), { kind: 'inDoubt' }],
  ['a close after the request', (_, socket) => void socket.end(), { kind: 'inDoubt' }],
  ['no HTTP', () => 'SSH-2.0-x\r\n\r\n', { kind: 'inDoubt' }],
  [
    '100 before its answer',
    () => `HTTP/1.1 100 Continue\r\n\r\n${http(201)}`,
    { kind: 'inDoubt', reason: 'answer is 100, which was not asked for' },
  ],
  ['101', () => 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n', { kind: 'inDoubt' }],
  ['103 before its answer', () => `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${http(201)}`, { kind: 'accepted' }],
  ['half a head', (_, socket) => void socket.end('HTTP/1.1 201 Cre'), { kind: 'inDoubt' }],
  ['too many headers', () => http(201, JOB, { 'x-big': 'x'.repeat(100_000) }), { kind: 'inDoubt' }],
];

test.each(cases)('%s ends both writes as it should, with one request', async (_, serve, expected) => {
  const { raw, create, message } = await setUp(serve);
  for (const write of [create, message]) {
    const outcome = await write();
    expect(outcome).toMatchObject(expected);
    expect(JSON.stringify(outcome)).not.toMatch(/do it|do more|sk-test/);
  }
  expect(raw.requests).toHaveLength(2);
});

const unreadable: [string, Answer][] = [
  ['an empty body', () => http(201, '')],
  ['204', () => 'HTTP/1.1 204 No Content\r\n\r\n'],
  ['broken JSON', () => http(201, '{"id":"job-1","status":"act')],
  ['no id', () => http(201, { status: 'active' })],
  ['an empty id', () => http(201, { ...JOB, id: '' })],
  ['an id with a line break', () => http(201, { ...JOB, id: 'a\nb' })],
  ['an id with half a character', () => http(201, '{"id":"\\ud800","status":"active"}')],
  [
    'an id that is not UTF-8',
    (_, s) => void s.write(Buffer.from(http(201, '{"id":"\xff","status":"a"}', { 'content-length': '23' }), 'latin1')),
  ],
  ['an id over 200 bytes', () => http(201, { ...JOB, id: 'é'.repeat(34) })],
  ['a record over 64 KiB', () => http(201, { ...JOB, model: 'm'.repeat(65_536) })],
  ['an unknown compression', (_, s) => void s.write(compressed(201, JOB, 'zstd', gzipSync('{"id":"job-1"}')))],
  ['half of a gzip', (_, s) => void s.write(compressed(201, JOB, 'gzip', gzipSync('{"id":"job-1"}').subarray(0, -9)))],
  ['a gzip that grows over the cap', (_, s) => void s.write(compressed(201, 'm'.repeat(2 ** 26)))],
  ['a body over the cap', () => http(201, { ...JOB, padding: 'm'.repeat(300 * 1024) })],
  [
    'a truncated chunked body',
    (_, socket) =>
      void socket.end('HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n1a\r\n{"id":"job-1","status":"a"}\r\n'),
  ],
];

test.each(unreadable)('a create answered 2xx with %s is unknown, for a job may exist', async (_, serve) => {
  const { raw, create } = await setUp(serve);
  expect(await create()).toMatchObject({ kind: 'inDoubt' });
  expect(raw.requests).toHaveLength(1);
});

test.each(Object.keys(COMPRESSIONS))('a create answered in %s, though nothing asked for it, is read', async (how) => {
  const { raw, create, classes } = await setUp((_, socket) => void socket.write(compressed(201, JOB, how)));
  expect(await create()).toMatchObject(CREATED);
  expect(raw.requests).toHaveLength(1);
  expect(classes).toEqual(['create 2xx']);
});

test.each(['gzip', 'toString', '__proto__'])(
  'a create whose answer is compressed by name alone is read: %s',
  async (how) => {
    const { create } = await setUp(() => http(201, JOB, { 'content-encoding': how }));
    expect(await create()).toMatchObject(CREATED);
  },
);

test('an endless body is cut off at the cap and its connection closed', async () => {
  const { raw, create } = await setUp((_, socket) => {
    socket.write('HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n');
    const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
    const flood = () => {
      while (!socket.destroyed && socket.write(chunk));
      if (!socket.destroyed) socket.once('drain', flood);
    };
    flood();
  });
  expect(await create()).toMatchObject({ reason: expect.stringContaining('over 256 KiB') });
  await expect.poll(() => raw.openConnections).toBe(0);
});

test.each([400, 408, 409, 503])('a %i that the operator vouches for is not taken, with its wait', async (status) => {
  const { create } = await setUp(() => http(status, '', { 'retry-after': '3' }), { notTakenStatuses: [status] });
  expect(await create()).toEqual({ kind: 'throttled', reason: `upstream answered ${status}`, retryAfterMs: 3_000 });
});

test('a key that the upstream echoes is masked, control characters go and long texts are cut', async () => {
  const { create } = await setUp(() => http(422, { error: `no\u0000pe: ${KEY}\r\n${'é'.repeat(600)}` }));
  const outcome = await create();
  expect(outcome).toEqual({ kind: 'rejected', status: 422, error: expect.stringMatching(/^no pe: \*\*\* é+$/) });
  expect(Buffer.byteLength((outcome as { error: string }).error)).toBeLessThanOrEqual(500);
});

test('a refusal that breaks off within an echo of the key shows no part of it', async () => {
  const half = `HTTP/1.1 422 X\r\ncontent-length: 100\r\n\r\nnope: ${KEY.slice(0, -4)}`;
  const { create } = await setUp((_, socket) => void socket.end(half));
  expect(await create()).toEqual({ kind: 'rejected', status: 422, error: '' });
});

describe('the last byte of a write', () => {
  /** A create whose server says how much it has read. */
  async function held(beforeLastByte: (raw: RawUpstream) => Promise<() => boolean>, serve: Answer = () => http(201)) {
    const raw = await RawUpstream.onRequest(serve);
    const client = clientOf(raw.url, { timeoutMs: 5_000 });
    const write = client.createJob({ projectId: 'p', prompt: 'x' }, { beforeLastByte: () => beforeLastByte(raw) });
    return { raw, write };
  }
  const allBut = /^POST [^]*content-length: 14\r\n\r\n\{"prompt":"x"$/;

  test('waits for its permission when all others are there', async () => {
    let held_ = '';
    const { raw, write } = await held(async (server) => {
      await until(() => server.text.includes('"x"'));
      await pause(100); // One more byte would come in that time.
      held_ = server.text;
      return () => true;
    });
    expect(await write).toMatchObject(CREATED);
    expect(held_).toMatch(allBut);
    expect(raw.requests).toHaveLength(1);
  });

  test('leaves in the same step of the process in which it is asked whether it still may', async () => {
    const order: string[] = [];
    const onSent = () => order.push('sent');
    const { write } = await held(() => {
      diagnostics.subscribe('undici:request:bodyChunkSent', onSent);
      return Promise.resolve(() => {
        order.push('asked');
        process.nextTick(() => order.push('something else'));
        queueMicrotask(() => order.push('something else'));
        return true;
      });
    });
    await write;
    diagnostics.unsubscribe('undici:request:bodyChunkSent', onSent);
    expect(order.slice(0, 2)).toEqual(['asked', 'sent']);
  });

  test('never leaves where it is too late for it', async () => {
    const { raw, write } = await held(() => Promise.resolve(() => false));
    expect(await write).toEqual({ kind: 'notDelivered', reason: 'it was too late to send it' });
    await expect.poll(() => raw.openConnections).toBe(0);
    expect(raw.text).toMatch(allBut);
  });

  test('never leaves if its permission is refused, and the call ends with that reason', async () => {
    const refusal = new Error('no mark');
    const { raw, write } = await held(() => Promise.reject(refusal));
    expect(await rejectionOf(write)).toBe(refusal);
    await expect.poll(() => raw.openConnections).toBe(0);
    expect(raw.text).toMatch(allBut);
  });

  test('never leaves where the connection is lost meanwhile, whatever comes of the question', async () => {
    for (const answer of [() => Promise.resolve(() => true), () => Promise.reject(new Error('no mark'))]) {
      let reset = () => {};
      let settle = () => {};
      const settled = new Promise<void>((resolve) => (settle = resolve));
      const raw = await RawUpstream.onConnection((socket) => {
        reset = () => void socket.resetAndDestroy();
        socket.resume();
      });
      const client = clientOf(raw.url);
      const beforeLastByte = async () => {
        reset();
        await settled;
        return answer();
      };
      const outcome = await client.createJob({ projectId: 'p', prompt: 'x' }, { beforeLastByte });
      settle();
      expect(outcome).toEqual({ kind: 'notDelivered', reason: 'connection was lost (ECONNRESET)' });
    }
  });

  test('is asked about anew for the repeat with a newer key', async () => {
    let keys = 0;
    let asked = 0;
    const raw = await RawUpstream.onRequest(() => http(asked === 1 ? 401 : 201));
    const client = clientOf(raw.url, {
      keys: { keyFor: () => Promise.resolve('old'), refresh: () => Promise.resolve(`new-${(keys += 1)}`) },
    });
    const beforeLastByte = () => Promise.resolve(() => (asked += 1) > 0);
    expect(await client.createJob({ projectId: 'p', prompt: 'x' }, { beforeLastByte })).toMatchObject(CREATED);
    expect({ asked, keys, requests: raw.requests.length }).toEqual({ asked: 2, keys: 1, requests: 2 });
  });
});

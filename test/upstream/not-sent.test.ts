import type net from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { UpstreamSettings } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { clientOf, CREATED, http, JOB, listen, RawUpstream, until } from './raw-upstream.js';

afterEach(() => void vi.unstubAllEnvs());

function writer(baseUrl: string, settings: Partial<UpstreamSettings> = {}) {
  const classes: string[] = [];
  const client = clientOf(baseUrl, { onResponse: (_, name) => classes.push(name), ...settings });
  return {
    classes,
    create: (prompt = 'do it') => client.createJob({ projectId: 'p', prompt }),
    message: (prompt = 'do it') => client.sendMessage({ projectId: 'p', jobId: 'j', prompt }),
  };
}

/** How a create and a message end: response class, kind and reason of each. */
async function bothWrites(baseUrl: string, settings: Partial<UpstreamSettings> = {}): Promise<string[]> {
  const { create, message, classes } = writer(baseUrl, settings);
  const endings: string[] = [];
  for (const write of [create, message]) {
    const outcome = await write();
    endings.push(`${classes.pop()} ${outcome.kind}: ${'reason' in outcome ? outcome.reason : ''}`);
  }
  return endings;
}

function bothNotSent(reason: RegExp): unknown[] {
  const ending: unknown = expect.stringMatching(new RegExp(`^notDelivered notDelivered: ${reason.source}`));
  return [ending, ending];
}

/**
 * The last byte of a write is held back for 20 ms, and the server that a test answers from shares this process: where
 * the process stalls for longer, no error comes in time, and the write is rightly unknown. It does not stall every
 * time.
 */
const ANSWERED_IN_TIME = { retry: 3 };

describe('a write is surely not sent', ANSWERED_IN_TIME, () => {
  test('where the connection is refused', async () => {
    const raw = await RawUpstream.onRequest(() => http(201));
    const { url } = raw;
    await raw.close();
    expect(await bothWrites(url)).toEqual(bothNotSent(/connection refused$/));
  });

  test('where the host name is not found', async () => {
    // A label over 63 characters fails without a question to any name server.
    expect(await bothWrites(`http://${'x'.repeat(64)}.invalid`)).toEqual(bothNotSent(/host name not found$/));
  });

  test('where the certificate is not trusted', async () => {
    const url = await listen(true, () => {});
    vi.unstubAllEnvs();
    expect(await bothWrites(url)).toEqual(bothNotSent(/TLS failed \(.*SIGNED/));
  });

  test('where TLS is answered with something else', async () => {
    const raw = await RawUpstream.onConnection((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    expect(await bothWrites(raw.url.replace('http', 'https'))).toEqual(bothNotSent(/TLS failed/));
  });

  test('where TLS is never answered, and the half-open connection is closed', async () => {
    const raw = await RawUpstream.onConnection((socket) => void socket.resume());
    expect(await bothWrites(raw.url.replace('http', 'https'), { timeoutMs: 200 })).toEqual(
      bothNotSent(/no connection within 0.2 s$/),
    );
    await until(() => raw.openConnections === 0);
  });

  const losses: [string, (socket: net.Socket) => void][] = [
    ['reset before anything is read', (socket) => void socket.resetAndDestroy()],
    ['closed before anything is read', (socket) => void socket.end()],
    [
      'reset in the middle of the headers',
      (socket) =>
        void socket.once('readable', () => {
          socket.read(10);
          socket.resetAndDestroy();
        }),
    ],
  ];
  test.each(losses)('where the connection is %s', async (_, lose) => {
    const raw = await RawUpstream.onConnection(lose);
    expect(await bothWrites(raw.url)).toEqual(bothNotSent(/connection/));
  });

  test('where there is no key, which it says', async () => {
    const raw = await RawUpstream.onRequest(() => http(201));
    const none = 'notDelivered unauthorized: ADMIN_API_KEY is not set';
    expect(await bothWrites(raw.url, { keys: createKeySource({}) })).toEqual([none, none]);
    const odd = 'notDelivered unauthorized: ADMIN_API_KEY holds characters that a header cannot carry';
    expect(await bothWrites(raw.url, { keys: createKeySource({ adminApiKey: 'a\nb' }) })).toEqual([odd, odd]);
    expect(raw.connections).toBe(0);
  });
});

test('a prompt over any socket buffer is not sent if the server does not read it within the time limit', async () => {
  const raw = await RawUpstream.onConnection((socket) => void socket.pause());
  const { create } = writer(raw.url, { timeoutMs: 3_000 });
  const reason = 'request not taken off the line within 3 s';
  expect(await create('p'.repeat(8 * 1024 * 1024))).toEqual({ kind: 'notDelivered', reason });
});

describe('an answer before the end of the request', ANSWERED_IN_TIME, () => {
  test.each([500, 502, 503, 408])('is not sent where it is %i: the rest never follows', async (status) => {
    const raw = await RawUpstream.answeringEarly(http(status, ''));
    const ending = `${String(status)[0]}xx notDelivered: upstream answered ${status}`;
    expect(await bothWrites(raw.url)).toEqual([ending, ending]);
  });

  test('keeps the last byte back even while its own body stalls', async () => {
    const raw = await RawUpstream.answeringEarly('HTTP/1.1 503 X\r\ncontent-length: 10\r\n\r\n');
    const ending = '5xx notDelivered: upstream answered 503';
    expect(await bothWrites(raw.url, { timeoutMs: 2_000 })).toEqual([ending, ending]);
  });

  test('keeps its meaning where it is a refusal or asks to wait', async () => {
    const refused = writer((await RawUpstream.answeringEarly(http(413, { error: 'too long' }))).url);
    expect(await refused.create()).toEqual({ kind: 'rejected', status: 413, error: 'too long' });
    expect(await refused.message()).toMatchObject({ kind: 'rejected' });
    const busy = writer((await RawUpstream.answeringEarly(http(429, '', { 'retry-after': '2' }))).url);
    expect(await busy.create()).toMatchObject({ kind: 'throttled' });
  });

  test('is a job where it is a 2xx with an id, and a message where it is its job’s record', async () => {
    const { create } = writer((await RawUpstream.answeringEarly(http(201))).url);
    expect(await create()).toMatchObject(CREATED);
    const { message } = writer((await RawUpstream.answeringEarly(http(200, { ...JOB, id: 'j' }))).url);
    expect(await message()).toMatchObject({ kind: 'accepted', job: { id: 'j' } });
  });

  test('proves nothing where it is a 2xx without such a body: the rest of the message never followed', async () => {
    for (const body of ['', '<html>sign in</html>', JSON.stringify(JOB)]) {
      const { message } = writer((await RawUpstream.answeringEarly(http(200, body))).url);
      expect(await message(), body).toMatchObject({
        kind: 'inDoubt',
        reason: 'upstream answered 200 before it had all',
      });
    }
    const { create } = writer((await RawUpstream.answeringEarly(http(200, ''))).url);
    expect(await create()).toMatchObject({ kind: 'inDoubt' });
  });
});

import net from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { clientOf, CREATED, http, JOB, listen, RawUpstream, rejectionOf, until } from './raw-upstream.js';

afterEach(() => void vi.unstubAllEnvs());

/** A proxy that knows CONNECT and nothing else; with a `status` other than 200 it opens no tunnel. */
async function tunnelProxy(status = 200): Promise<{ url: string; heads: string[]; raw: RawUpstream }> {
  const heads: string[] = [];
  const raw = await RawUpstream.onConnection((socket) => {
    socket.once('data', (head) => {
      heads.push(head.toString());
      if (status !== 200) return socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
      const port = Number(/^CONNECT [^ ]+:(\d+) /.exec(head.toString())![1]);
      const onward = net.connect(port, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      onward.on('error', () => socket.destroy());
      socket.on('close', () => onward.destroy());
      return undefined;
    });
    socket.resume();
  });
  return { url: raw.url, heads, raw };
}

function clientThrough(baseUrl: string, proxy: object, timeoutMs = 20_000) {
  const client = clientOf(baseUrl, { proxy, timeoutMs });
  return {
    create: (prompt = 'x') => client.createJob({ projectId: 'p', prompt }),
    getJob: () => client.getJob({ projectId: 'p', jobId: JOB.id }),
  };
}

describe('through a proxy', () => {
  test('writes and reads go through a tunnel, bodies whole and keys unseen', async () => {
    const proxy = await tunnelProxy();
    const raw = await RawUpstream.onRequest((request) =>
      http(200, { ...JOB, model: request.body && String(JSON.parse(request.body).prompt.length) }),
    );
    const { create, getJob } = clientThrough(raw.url, { httpProxy: proxy.url });
    expect(await create('p'.repeat(400 * 1024))).toMatchObject({ job: { model: String(400 * 1024) } });
    expect(await getJob()).toMatchObject({ job: JOB });
    expect(proxy.heads.map((head) => head.split(' ')[0])).toEqual(['CONNECT', 'CONNECT']);
    expect(proxy.heads.join('')).not.toMatch(/authorization/i);
  });

  test('the name and password of its URL are sent to it alone', async () => {
    const proxy = await tunnelProxy();
    const raw = await RawUpstream.onRequest(() => http(201));
    const { create } = clientThrough(raw.url, { httpProxy: proxy.url.replace('://', '://me:secret@') });
    await create();
    expect(proxy.heads[0]).toContain(`proxy-authorization: Basic ${Buffer.from('me:secret').toString('base64')}`);
    expect(raw.requests[0]!.headers).not.toHaveProperty('proxy-authorization');
  });

  test('TLS ends at the upstream', async () => {
    const proxy = await tunnelProxy();
    const url = await listen(true, (socket) => {
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
        if (text.endsWith('"}')) socket.write(http(201));
      });
    });
    const { create } = clientThrough(url, { httpsProxy: proxy.url });
    expect(await create('p'.repeat(400 * 1024))).toMatchObject(CREATED);
    expect(proxy.heads).toHaveLength(1);
  });
});

describe('a proxy that fails', () => {
  test.each([403, 407, 502])('with %i to the CONNECT leaves a write not sent', async (status) => {
    const proxy = await tunnelProxy(status);
    const raw = await RawUpstream.onRequest(() => http(201));
    const { create, getJob } = clientThrough(raw.url, { httpProxy: proxy.url });
    expect(await create()).toEqual({ kind: 'notDelivered', reason: `the proxy opened no tunnel (${status})` });
    expect(await rejectionOf(getJob())).toBeInstanceOf(ReadFailedError);
    expect(raw.connections).toBe(0);
  });

  test('by not being there leaves a write not sent', async () => {
    const proxy = await tunnelProxy();
    await proxy.raw.close();
    const raw = await RawUpstream.onRequest(() => http(201));
    const { create } = clientThrough(raw.url, { httpProxy: proxy.url });
    expect(await create()).toMatchObject({ kind: 'notDelivered', reason: 'connection refused' });
  });

  const closing: [string, (socket: net.Socket) => void][] = [
    ['closing each tunnel', (socket) => void socket.destroy()],
    ['answering what is no tunnel', (socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno')],
  ];
  test.each(closing)('by %s ends a write and a read at once, and is not called on and on', async (_, answer) => {
    const proxy = await RawUpstream.onConnection((socket) => {
      socket.once('data', () => answer(socket));
      socket.resume();
    });
    const { create, getJob } = clientThrough('http://127.0.0.1:9', { httpProxy: proxy.url });
    expect(await create()).toMatchObject({
      kind: 'notDelivered',
      reason: expect.stringMatching(/reset|lost/) as unknown,
    });
    expect(await rejectionOf(getJob())).toMatchObject({ reason: 'connection was lost (ECONNRESET)' });
    expect(proxy.connections).toBe(3); // A read is repeated once.
  });

  test('by never answering leaves a write not sent, and no connection, and ends a read in time', async () => {
    const proxy = await RawUpstream.onConnection((socket) => void socket.resume());
    const raw = await RawUpstream.onRequest(() => http(201));
    const { create, getJob } = clientThrough(raw.url, { httpProxy: proxy.url }, 250);
    expect(await create()).toMatchObject({ kind: 'notDelivered', reason: 'no connection within 0.25 s' });
    await until(() => proxy.openConnections === 0);
    expect(await rejectionOf(getJob())).toMatchObject({ reason: 'no answer within 0.25 s' });
  });
});

test('hosts that NO_PROXY names are reached directly', async () => {
  const proxy = await tunnelProxy();
  const raw = await RawUpstream.onRequest(() => http(201));
  const { create } = clientThrough(raw.url, { httpProxy: proxy.url, noProxy: 'example.org, 127.0.0.1' });
  expect(await create()).toMatchObject(CREATED);
  expect(proxy.heads).toEqual([]);
});

test.each([
  ['127.0.0.1', '127.0.0.0/8', 'direct'],
  ['127.0.0.1', '10.0.0.0/8, .example.com 127.0.0.1/32', 'direct'],
  ['127.0.0.1', '10.0.0.0/8,127.0.0.1/99,::/0', 'proxied'],
  ['[::1]', '::/64', 'direct'],
  ['[::1]', '::1', 'direct'],
  ['[::1]', '[::1]', 'direct'],
  ['[::1]', '2001:db8::/32,0.0.0.0/0', 'proxied'],
])('the address %s is reached where NO_PROXY is "%s": %s', async (host, noProxy, way) => {
  const proxy = await tunnelProxy();
  const raw = await RawUpstream.onRequest(() => http(201));
  const { create } = clientThrough(raw.url.replace('127.0.0.1', host), { httpProxy: proxy.url, noProxy });
  // Nothing listens at the IPv6 address itself.
  await create();
  expect(proxy.heads.length === 0 ? 'direct' : 'proxied').toBe(way);
});

test('the proxy for http is not one for https', async () => {
  const proxy = await tunnelProxy();
  const raw = await RawUpstream.onRequest(() => http(201));
  const { create } = clientThrough(raw.url.replace('http', 'https'), { httpProxy: proxy.url }, 5_000);
  expect(await create()).toMatchObject({ kind: 'notDelivered' });
  expect({ proxied: proxy.heads.length, direct: raw.connections }).toEqual({ proxied: 0, direct: 1 });
});

test('the environment is not asked for a proxy', async () => {
  const proxy = await tunnelProxy(403);
  vi.stubEnv('HTTP_PROXY', proxy.url);
  vi.stubEnv('http_proxy', proxy.url);
  for (const name of ['NO_PROXY', 'no_proxy']) vi.stubEnv(name, '');
  const raw = await RawUpstream.onRequest(() => http(201));
  expect(await clientThrough(raw.url, {}).create()).toMatchObject(CREATED);
  expect(proxy.heads).toEqual([]);
});

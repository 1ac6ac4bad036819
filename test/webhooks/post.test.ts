import { connect, createServer, type Server, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { isPublic, post, publicAddresses } from '../../src/activities/webhooks/post.js';
import { Receiver, SECRET, useReceiver } from './receiver.js';

const OTHER = `whsec_${Buffer.from('another secret of twenty-').toString('base64')}`;
const bytes = (secret: string) => Buffer.from(secret.slice('whsec_'.length), 'base64');
const BODY = JSON.stringify({ type: 'agent_job.ended', timestamp: '2026-01-01T00:00:00Z', data: { é: 'ü' } });

const receiver = useReceiver();
afterEach(() => void vi.restoreAllMocks());

const send = (url: string, options: { secrets?: string[]; allowPrivate?: boolean; proxy?: string } = {}) =>
  post({
    endpoint: { url: new URL(url), secrets: (options.secrets ?? [SECRET]).map(bytes) },
    eventId: 'evt_1',
    body: BODY,
    way: { allowPrivate: options.allowPrivate ?? true, proxy: options.proxy },
  });

test('the scheme’s own library verifies each of the secrets, and none that is not there', async () => {
  expect(await send(receiver.url, { secrets: [OTHER, SECRET] })).toEqual({ status: 204, retryAfterMs: null });
  const { path, headers, body } = receiver.received.at(-1)!;
  expect([path, body, headers['content-type']]).toEqual(['/hooks?token=of-the-address', BODY, 'application/json']);
  expect(headers['webhook-id']).toBe('evt_1');
  for (const secret of [OTHER, SECRET]) expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(BODY));
  const nobodys = `whsec_${Buffer.alloc(24).toString('base64')}`;
  expect(() => new Webhook(nobodys).verify(body, headers)).toThrow('No matching signature');
  expect(() => new Webhook(SECRET).verify(`${body} `, headers)).toThrow('No matching signature');
});

test('a redirect is an answer, and is not followed', async () => {
  const elsewhere = await new Receiver().start();
  receiver.answers.push((response) => response.writeHead(302, { location: elsewhere.url }).end());
  expect(await send(receiver.url)).toMatchObject({ status: 302 });
  expect(elsewhere.received).toEqual([]);
  elsewhere.close();
});

test('Retry-After is read, in seconds or as a date', async () => {
  receiver.answers.push((response) => response.writeHead(429, { 'retry-after': '120' }).end());
  expect(await send(receiver.url)).toEqual({ status: 429, retryAfterMs: 120_000 });
  const date = new Date(Date.parse('2026-01-01T00:01:00Z')).toUTCString();
  const now = new Date(Date.parse('2026-01-01T00:00:00Z')).toUTCString();
  receiver.answers.push((response) => response.writeHead(503, { 'retry-after': date, date: now }).end());
  expect(await send(receiver.url)).toEqual({ status: 503, retryAfterMs: 60_000 });
});

test('a status is enough, whether its body ends or not', async () => {
  const beat = (response: { write: (text: string) => unknown }) => setInterval(() => response.write('x'), 50).unref();
  receiver.answers.push((response) => void beat(response.writeHead(200)));
  expect(await send(receiver.url)).toMatchObject({ status: 200 });
  receiver.answers.push((response) => {
    response.writeHead(200, { 'content-length': '100' }).flushHeaders();
    setTimeout(() => response.destroy(), 50);
  });
  expect(await send(receiver.url)).toMatchObject({ status: 200 });
});

describe('a receiver without an answer', () => {
  let server: Server;
  let sockets: Socket[];
  let url: string;
  let onConnection: (socket: Socket) => void;
  beforeAll(async () => {
    sockets = [];
    server = createServer((socket) => {
      sockets.push(socket.on('error', () => {}));
      onConnection(socket);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  test('that closes early has not answered', async () => {
    onConnection = (socket) => socket.once('data', () => socket.end());
    await expect(send(url)).rejects.toThrow('other side closed');
  });

  test('that hangs has 15 seconds, and no socket of it is left', async () => {
    onConnection = (socket) => socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nx-slow: '));
    const before = sockets.length;
    const both = [send(url), send('https://example.com/', { proxy: url })]; // the second one waits for its tunnel
    await Promise.all(both.map((sent) => expect(sent).rejects.toMatchObject({ name: 'TimeoutError' })));
    await expect.poll(() => sockets.slice(before).map(({ destroyed }) => destroyed)).toEqual([true, true]);
  });

  test('through a proxy each goes by a tunnel, and the proxy judges the address', async () => {
    const heads: string[] = [];
    const [, port] = /:(\d+)\//.exec(receiver.url)!;
    onConnection = (socket) =>
      socket.once('data', (head) => {
        heads.push(String(head).split('\r\n')[0]!);
        const onward = connect(Number(port), '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 OK\r\n\r\n');
          socket.pipe(onward).pipe(socket);
        });
        onward.on('error', () => socket.destroy());
      });
    const to = receiver.url.replace('127.0.0.1', 'private.test');
    expect(await send(to, { proxy: url, allowPrivate: false })).toMatchObject({ status: 204 });
    expect(heads).toEqual([`CONNECT private.test:${port} HTTP/1.1`]);
    expect(receiver.received.at(-1)!.headers['host']).toBe(`private.test:${port}`);
    onConnection = (socket) => socket.once('data', () => socket.end('HTTP/1.1 403 No\r\n\r\n'));
    await expect(send(to, { proxy: url })).rejects.toThrow('403');
  });
});

test.each([
  ...['127.0.0.1', '0.0.0.0', '10.1.2.3', '172.16.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', '224.0.0.1'],
  ...['198.18.0.1', '192.0.2.1', '240.0.0.1', '255.255.255.255', '::', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1'],
  ...[
    'fe80::1',
    'fc00::1',
    'ff02::1',
    '::7f00:1',
    '100::1',
    '4000::1',
    '168.63.129.16',
    '64:ff9b::7f00:1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::1.1.1.1',
    '2002:7f00:1::',
    '2001:db8::1',
    '2001::1',
    'nonsense',
  ],
])('%s is not public', (address) => {
  expect(isPublic(address)).toBe(false);
});

test.each(['1.1.1.1', '93.184.216.34', '2606:4700:4700::1111', '::ffff:1.1.1.1', '64:ff9b::1.1.1.1'])(
  '%s is public',
  (address) => {
    expect(isPublic(address)).toBe(true);
  },
);

test.each(['127.0.0.1', '2130706433', '0x7f.1', '[::ffff:127.0.0.1]', 'private.test'])(
  'where only public addresses are taken, nothing goes to %s',
  async (host) => {
    // Names that others have given to addresses of this machine, which is what the guard is for: no test can have them.
    vi.spyOn(Resolver.prototype, 'resolve4').mockResolvedValue(['127.0.0.1']);
    vi.spyOn(Resolver.prototype, 'resolve6').mockRejectedValue(new Error('queryAaaa ENODATA'));
    const before = receiver.received.length;
    const url = receiver.url.replace('127.0.0.1', host);
    await expect(send(url, { allowPrivate: false })).rejects.toThrow('not public');
    expect(receiver.received).toHaveLength(before);
  },
);

test('of several addresses of a name only the public ones are taken', async () => {
  vi.spyOn(Resolver.prototype, 'resolve4').mockResolvedValue(['10.0.0.1', '1.1.1.1']);
  vi.spyOn(Resolver.prototype, 'resolve6').mockResolvedValue(['fc00::1', '64:ff9b::1.1.1.1']);
  expect(await publicAddresses('mixed.test')).toEqual([
    { address: '1.1.1.1', family: 4 },
    { address: '64:ff9b::1.1.1.1', family: 6 },
  ]);
});

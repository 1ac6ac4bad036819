/**
 * What a write that ended in trouble leaves behind: bytes that the kernel still holds must not arrive after the write
 * was judged.
 */
import { setTimeout as pause } from 'node:timers/promises';
import net from 'node:net';
import type tls from 'node:tls';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { clientOf, http, JOB, listen, rejectionOf, until } from './raw-upstream.js';

afterEach(() => void vi.unstubAllEnvs());

/** More than a receiver that does not read takes, and less than that and the sender's kernel hold together. */
const PROMPT = 'p'.repeat(600 * 1024);

/** A tunnel proxy whose sockets do not hold back what the other side does not take. */
async function tunnel(): Promise<string> {
  const url = await listen(false, (socket) => {
    socket.once('data', (head) => {
      const onward = net.connect(Number(/:(\d+) /.exec(head.toString())![1]), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      onward.on('error', () => socket.destroy());
      socket.on('error', () => onward.resetAndDestroy());
    });
  });
  return url;
}

interface Fate {
  /** How the server's side of the connection ended. */
  end: string;
  isWhole: boolean;
}

/** Follows a connection to its end. */
function follow(socket: net.Socket): Promise<Fate> {
  let text = '';
  socket.on('data', (chunk: Buffer) => (text = (text + chunk.toString('latin1')).slice(-10)));
  return new Promise((resolve) => {
    const fate = (end: string) => resolve({ end, isWhole: text.endsWith('"}') });
    socket.once('error', (error: NodeJS.ErrnoException) => fate(error.code ?? error.message));
    socket.once('end', () => fate('end'));
    socket.once('close', () => fate('close'));
  });
}

/** A server that reads no more once the first bytes are there, until the write was judged. */
async function listenUnread(isTls: boolean) {
  const paused: net.Socket[] = [];
  const url = await listen(isTls, (socket) => void socket.once('data', () => paused.push(socket.pause())));
  const readOn = async (): Promise<Fate> => {
    await pause(500);
    const fate = follow(paused[0]!);
    // What the kernel has kept would come now.
    paused[0]!.resume();
    return fate;
  };
  return { url, paused, readOn };
}

/** Collects what is thrown where nothing can catch it: it would end a worker. */
function collectUncaught(): unknown[] {
  const uncaught: unknown[] = [];
  const listener = (error: unknown) => void uncaught.push(error);
  process.on('uncaughtExceptionMonitor', listener);
  onTestFinished(() => void process.off('uncaughtExceptionMonitor', listener));
  return uncaught;
}

describe.each([
  ['over TCP', false],
  ['over TLS', true],
])('%s, a write', (_, isTls) => {
  test('that is given up while the upstream does not read is reset: its last byte never arrives', async () => {
    const { url, readOn } = await listenUnread(isTls);
    const client = clientOf(url, { timeoutMs: 3_000 });
    const outcome = await client.createJob({ projectId: 'p', prompt: PROMPT });
    // The last byte was handed over: the kernel alone had it.
    expect(outcome).toEqual({ kind: 'inDoubt', reason: 'no answer within 3 s' });
    expect(await readOn()).toMatchObject({ isWhole: false });
  });

  test.each([500, 429, 303])(
    'that is answered %i before it was read to its end is reset: its last byte never arrives',
    async (status) => {
      const { url, paused, readOn } = await listenUnread(isTls);
      const client = clientOf(url);
      let asked = 0;
      const beforeLastByte = () => Promise.resolve(() => (asked += 1) > 0);
      const write = client.createJob({ projectId: 'p', prompt: PROMPT }, { beforeLastByte });
      await until(() => asked > 0 && paused.length > 0);
      paused[0]!.write(http(status, ''));
      expect(await write).toHaveProperty('reason', `upstream answered ${status}`);
      expect(asked).toBe(1);
      expect(await readOn()).toMatchObject({ isWhole: false });
    },
  );

  const troubles: [string, (socket: net.Socket) => void][] = [
    ['no answer', () => {}],
    ['half an answer', (socket) => void socket.write('HTTP/1.1 201 X\r\ncontent-length: 99\r\n\r\n{')],
    ['what is no HTTP', (socket) => void socket.write('hello\r\n\r\n')],
    ['too much', (socket) => void socket.write(http(201, 'x'.repeat(300_000)))],
    ['the end of the answering side alone', (socket) => void socket.end()],
  ];
  test.each(troubles)('that gets %s is reset', async (__, answer) => {
    let fate: Promise<Fate> | undefined;
    const url = await listen(isTls, (socket, tcp) => {
      tcp.allowHalfOpen = true;
      socket.allowHalfOpen = true;
      fate = follow(socket);
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
        if (text.endsWith('"}')) answer(socket);
      });
    });
    const client = clientOf(url, { timeoutMs: 2_000 });
    expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject({
      kind: 'inDoubt',
    });
    expect((await fate!).end).toBe('ECONNRESET');
  });

  test.each([1.0, 1.1])(
    'and a read that HTTP/%f answers without a length or an end are given up, and harm nothing else',
    async (version) => {
      const uncaught = collectUncaught();
      const url = await listen(isTls, (socket) => {
        socket.on('data', (chunk: Buffer) => {
          const text = chunk.toString();
          if (text.startsWith('GET') || text.endsWith('}'))
            socket.write(`HTTP/${version.toFixed(1)} 200 OK\r\nconnection: close\r\n\r\n{"id":`);
        });
      });
      const client = clientOf(url, { timeoutMs: 2_000 });
      const create = client.createJob({ projectId: 'p', prompt: 'x' });
      const read = rejectionOf(client.getJob({ projectId: 'p', jobId: 'j' }));
      expect(await create).toMatchObject({ reason: 'upstream answered 200, but no complete answer within 2 s' });
      expect(await read).toMatchObject({ reason: 'no complete answer within 2 s' });
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(uncaught).toEqual([]);
    },
  );

  // Each comes long after the answer has begun, on a busy machine too.
  const refusals: [string, () => Promise<() => boolean>][] = [
    ['too late', () => pause(1_000).then(() => () => false)],
    ['not allowed', () => pause(1_000).then(() => Promise.reject(new Error('refused')))],
  ];
  test.each(refusals)('that is %s once an answer has begun is reset, and harms nothing else', async (why, refuse) => {
    const uncaught = collectUncaught();
    const fates: Promise<Fate>[] = [];
    const url = await listen(isTls, (socket) => {
      fates.push(follow(socket));
      socket.once('data', () => void socket.write('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"id":'));
    });
    const client = clientOf(url);
    const outcome = await client.createJob({ projectId: 'p', prompt: 'x' }, { beforeLastByte: refuse });
    expect(outcome).toEqual({ kind: 'inDoubt', reason: expect.stringContaining(why) as unknown });
    expect(await Promise.all(fates)).toEqual([{ end: 'ECONNRESET', isWhole: false }]);
    expect(uncaught).toEqual([]);
  });

  test('that may not be finished is reset', async () => {
    let fate: Promise<Fate> | undefined;
    const url = await listen(isTls, (socket) => void (fate = follow(socket)));
    const client = clientOf(url);
    const beforeLastByte = () => Promise.resolve(() => false);
    const outcome = await client.createJob({ projectId: 'p', prompt: 'x' }, { beforeLastByte });
    expect(outcome.kind).toBe('notDelivered');
    expect(await fate).toEqual({ end: 'ECONNRESET', isWhole: false });
  });

  test('that is answered is closed, not reset', async () => {
    let fate: Promise<Fate> | undefined;
    const url = await listen(isTls, (socket) => {
      fate = follow(socket);
      socket.on('data', (chunk: Buffer) => {
        if (chunk.toString().endsWith('}')) socket.write(http(201));
      });
    });
    const client = clientOf(url);
    expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject({ jobId: JOB.id });
    expect((await fate!).end).not.toBe('ECONNRESET');
  });
});

test.each([
  ['HTTP', false],
  ['HTTPS', true],
])('a write over %s through a tunnel is reset too: the tunnel sees it', async (_, isTls) => {
  let fate: Promise<Fate> | undefined;
  const url = await listen(isTls, (socket) => {
    fate = follow(socket);
    socket.resume();
  });
  const proxy = await tunnel();
  const client = clientOf(url, { timeoutMs: 2_000, proxy: { httpProxy: proxy, httpsProxy: proxy } });
  expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject({ kind: 'inDoubt' });
  expect((await fate!).end).toBe('ECONNRESET');
});

test('TLS over a socket of our own names the host, and reaches the one of its addresses that answers', async () => {
  const names: unknown[] = [];
  const url = await listen(true, (socket) => {
    socket.on('data', (chunk: Buffer) => {
      names.push((socket as tls.TLSSocket & { servername?: string }).servername);
      if (chunk.toString().endsWith('}')) socket.write(http(201));
    });
  });
  // Listens on 127.0.0.1 alone, and the name stands for ::1 too if the machine has it.
  const client = clientOf(url.replace('127.0.0.1', 'localhost'));
  expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject({ jobId: JOB.id });
  expect(new Set(names)).toEqual(new Set(['localhost']));
});

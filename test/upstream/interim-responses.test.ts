/** Interim responses (1xx) that nobody asked for: the final one is what counts. */
import tls from 'node:tls';
import type net from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { clientOf, CREATED, http, JOB, RawUpstream, until } from './raw-upstream.js';
import { SELF_SIGNED } from './self-signed.js';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(closers.splice(0).map((close) => close()));
});

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

async function setUp(serve: Parameters<typeof RawUpstream.onRequest>[0]) {
  const raw = await RawUpstream.onRequest(serve);
  const client = clientOf(raw.url, { timeoutMs: 5_000 });
  closers.push(
    () => client.close(),
    () => raw.close(),
  );
  return {
    raw,
    create: () => client.createJob({ projectId: 'p', prompt: 'x' }),
    read: () => client.getJob({ projectId: 'p', jobId: JOB.id }),
  };
}

/** Writes each piece as a packet of its own. */
async function inPieces(socket: net.Socket, pieces: readonly string[]): Promise<void> {
  socket.setNoDelay(true);
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('an upstream that answers with', () => {
  test.each([
    ['100', CONTINUE],
    ['100 twice', CONTINUE + CONTINUE],
    ['100 with fields', 'HTTP/1.1 100 Continue\r\ndate: now\r\nx: y\r\n\r\n'],
    ['102', 'HTTP/1.1 102 Processing\r\n\r\n'],
    ['103 and 100', `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${CONTINUE}`],
    ['100 of HTTP/1.0, without a reason', 'HTTP/1.0 100\r\n\r\n'],
  ])('%s first serves writes and reads, whole or byte by byte', async (_, interim) => {
    const whole = await setUp(() => interim + http(200));
    expect(await whole.create()).toMatchObject(CREATED);
    for (let i = 0; i < 3; i += 1) expect(await whole.read()).toMatchObject(JOB);
    expect(whole.raw.connections).toBe(2); // the write's own, and one for all reads
    const split = await setUp((__, socket) => void inPieces(socket, (interim + http(200)).split('')));
    expect(await split.create()).toMatchObject(CREATED);
    expect(await split.read()).toMatchObject(JOB);
  });

  test('100 before the request is whole gets the rest of it', async () => {
    const raw = await RawUpstream.onConnection((socket) => {
      let text = '';
      socket.once('data', () => void socket.write(CONTINUE));
      socket.on('data', (chunk) => {
        text += chunk;
        if (text.endsWith('"}')) socket.write(http(201));
      });
      socket.resume();
    });
    const client = clientOf(raw.url);
    closers.push(
      () => client.close(),
      () => raw.close(),
    );
    expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject(CREATED);
  });

  test('100 first serves a write over TLS', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    const server = tls.createServer(SELF_SIGNED, (socket) => {
      let text = '';
      socket.on('error', () => {});
      socket.on('data', (chunk) => {
        text += chunk;
        if (text.endsWith('"}')) void inPieces(socket, [CONTINUE.slice(0, 9), CONTINUE.slice(9), http(201)]);
      });
    });
    server.listen(0, '127.0.0.1');
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    await until(() => server.address() !== null);
    const client = clientOf(`https://127.0.0.1:${(server.address() as net.AddressInfo).port}`);
    closers.push(() => client.close());
    expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject(CREATED);
  });

  test.each([
    ['nothing but 100', CONTINUE],
    ['half of 100', 'HTTP/1.1 1'],
    ['101', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
    ['100 and no HTTP', `${CONTINUE}hello\r\n\r\n`],
    ['100 with a head of 64 KiB', `HTTP/1.1 100 Continue\r\nx: ${'y'.repeat(65_536)}\r\n\r\n`],
  ])('%s leaves a write unknown', async (_, text) => {
    const { create } = await setUp((__, socket) => void socket.end(text));
    expect(await create()).toMatchObject({ kind: 'inDoubt' });
  });

  test('the words of an interim response within its body is read as it is', async () => {
    const { create } = await setUp(() => http(201, { ...JOB, model: CONTINUE }));
    expect(await create()).toMatchObject({ job: { model: CONTINUE } });
  });
});

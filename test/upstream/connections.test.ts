import type net from 'node:net';
import { beforeEach, describe, expect, test } from 'vitest';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { CREATED, http, JOB, type RawUpstream, rejectionOf, setUp, until } from './raw-upstream.js';

/** The connections of this process, which other test files share. */
const openSockets = () => process.getActiveResourcesInfo().filter((name) => name.startsWith('TCPSocketWrap')).length;
let openBefore: number;
beforeEach(() => {
  openBefore = openSockets();
});

function connectionsOf(raw: RawUpstream, method: string): number[] {
  return raw.requests.filter(({ line }) => line.startsWith(method)).map(({ connection }) => connection);
}

describe('writes', () => {
  test('each have a connection of their own, which is closed after them', async () => {
    const { raw, client } = await setUp(() => http(200));
    for (let i = 0; i < 20; i += 1) {
      await client.getJob({ projectId: 'p', jobId: JOB.id });
      await client.createJob({ projectId: 'p', prompt: 'x' });
    }
    await Promise.all(
      Array.from({ length: 20 }, () => client.sendMessage({ projectId: 'p', jobId: 'j', prompt: 'x' })),
    );
    const writes = connectionsOf(raw, 'POST');
    const reads = new Set(connectionsOf(raw, 'GET'));
    expect(writes).toHaveLength(40);
    expect(new Set(writes).size).toBe(40);
    expect(writes.filter((connection) => reads.has(connection))).toEqual([]);
    await until(() => raw.openConnections <= reads.size);
  });

  test('are never unknown where the upstream closes idle connections at once', async () => {
    const { raw, client } = await setUp((_, socket) => {
      // Says keep-alive, and closes all the same.
      setTimeout(() => socket.destroy(), 1);
      return http(201, JOB, { connection: 'keep-alive' });
    });
    for (let i = 0; i < 20; i += 1) {
      const jobs = Array.from({ length: 10 }, () => client.createJob({ projectId: 'p', prompt: 'x' }));
      expect(await Promise.all(jobs)).toHaveLength(10);
    }
    expect(raw.requests).toHaveLength(200);
  });

  test('leave while 500 reads hang', async () => {
    const { raw, client } = await setUp((request) => (request.line.startsWith('GET') ? undefined : http(201)));
    const stop = new AbortController();
    const reads = Array.from({ length: 500 }, () =>
      client.getJob({ projectId: 'p', jobId: JOB.id }, { signal: stop.signal }).catch((error: unknown) => error),
    );
    await until(() => raw.requests.length >= 500);
    expect(await client.createJob({ projectId: 'p', prompt: 'x' })).toMatchObject(CREATED);
    stop.abort();
    // On a busy machine the first of them may be over before: no read hangs for more than 20 s.
    expect((await Promise.all(reads)).every((error) => error instanceof Error)).toBe(true);
    await until(() => raw.openConnections === 0);
  });
});

describe('reads', () => {
  test('never fail where the upstream closes idle connections just after an answer', async () => {
    const { raw, client } = await setUp((_, socket) => {
      setTimeout(() => socket.destroy(), 2);
      return http(200);
    });
    for (let i = 0; i < 200; i += 1) {
      expect(await client.getJob({ projectId: 'p', jobId: JOB.id })).toMatchObject({ job: JOB });
      await new Promise((resolve) => setTimeout(resolve, i % 4));
    }
    expect(raw.requests.length).toBeGreaterThanOrEqual(200);
  });

  test('never fail where all kept connections were lost, and only their use shows it', async () => {
    const used = new Set<number>();
    const { client } = await setUp(({ connection }, socket) => {
      if (used.has(connection)) return void socket.resetAndDestroy();
      used.add(connection);
      return http(200);
    });
    const read = () => client.getJob({ projectId: 'p', jobId: JOB.id });
    await Promise.all(Array.from({ length: 10 }, read));
    for (let i = 0; i < 10; i += 1) expect(await read()).toMatchObject({ job: JOB });
  });

  test('that are reset are repeated once', async () => {
    const { raw, client } = await setUp((_, socket) => void socket.resetAndDestroy());
    for (let i = 0; i < 5; i += 1) await rejectionOf(client.getJob({ projectId: 'p', jobId: JOB.id }));
    expect(raw.requests).toHaveLength(10);
  });
});

describe('closing', () => {
  test('waits for writes in flight, ends reads and leaves no connection', async () => {
    let answer: (() => void) | undefined;
    const { raw, client } = await setUp((request, socket) => {
      if (request.line.startsWith('POST')) answer = () => socket.write(http(201));
    });
    const write = client.createJob({ projectId: 'p', prompt: 'x' });
    const read = rejectionOf(client.getJob({ projectId: 'p', jobId: JOB.id }));
    await until(() => raw.requests.length >= 2);
    const closed = client.close();
    expect(await read).toBeInstanceOf(ReadFailedError);
    answer!();
    expect(await write).toMatchObject(CREATED);
    await closed;
    await until(() => raw.openConnections === 0);
    await until(() => openSockets() <= openBefore);
  });

  test('leaves nothing open after writes that ended in every way', async () => {
    const ways: ((socket: net.Socket) => string | void)[] = [
      () => http(201),
      () => http(503, ''),
      () => 'HTTP/1.1 201 X\r\ncontent-length: 99\r\n\r\n{',
      (socket) => void socket.resetAndDestroy(),
      (socket) => void socket.end(),
      () => {},
    ];
    let turn = 0;
    const { raw, client } = await setUp((_, socket) => ways[turn++ % ways.length]!(socket), { timeoutMs: 300 });
    const writes = Array.from({ length: 60 }, () => client.createJob({ projectId: 'p', prompt: 'x' }));
    const outcomes = await Promise.allSettled(writes);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(60);
    await until(() => raw.openConnections === 0);
    await client.close();
    await until(() => openSockets() <= openBefore);
  });
});

/** Callers that take more than their share, or speak HTTP in ways of their own: what each leaves to the others. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test, vi } from 'vitest';
import { agentJobWorkflowId } from '../../src/contract.js';
import { CallerKeys } from '../../src/http/keys.js';
import { CallerLimits, checkShape, type Limits } from '../../src/http/limits.js';
import { readBody } from '../../src/http/request.js';
import { networkOf } from '../../src/http/strangers.js';
import type { AgentJobs } from '../../src/starter.js';
import { connectHeldCaller } from '../support/held-caller.js';
import { byId, headOf, type HttpBench, LIST, openRequests, OWN, peer, startHttp, useHttp } from './http-server.js';

const used = useHttp({ bodyBytes: 8 * 1024 * 1024 });
const LONG = { timeout: 60_000 };

/** A server with limits of its own. */
async function withHttp(limits: Partial<Limits>, work: (own: HttpBench) => Promise<void>, jobs?: AgentJobs) {
  const own = await startHttp(jobs ?? used.jobs, OWN, limits);
  try {
    await work(own);
  } finally {
    await own.close();
  }
}

/** A job that no worker serves. */
async function startIdle(): Promise<{ path: string; end: () => Promise<unknown> }> {
  const { workflowId } = await used.jobs.start({ projectId: OWN, key: randomUUID(), prompt: 'x' });
  return { path: byId(workflowId), end: () => used.server.client.workflow.getHandle(workflowId).terminate() };
}

const head = (first: string, ...headers: string[]) => headOf(used.bench, first, ...headers);
const start = (key: string, ...headers: string[]) =>
  head(`POST ${LIST}`, `idempotency-key: ${key}`, 'content-type: application/json', ...headers);
const whole = (key: string, body: string) => start(key, `content-length: ${body.length}`) + body;
/** A start that is declined once its body was read. */
const WRONG = { body: { prompt: 1 }, headers: { 'idempotency-key': 'x' } };

test('unfinished bodies take bounded memory, a quarter of it a key, and other callers still get through', async () => {
  const { bench } = used;
  const part = 1024 * 1024;
  const text = start('k', `content-length: ${2 * part}`) + ' '.repeat(part);
  const peers = Array.from({ length: 12 }, () => peer(bench, text));
  // Two fit; the others are answered, and no body is kept for them.
  await vi.waitUntil(() => peers.filter(({ answer }) => answer().includes(' 503 ')).length === 10, LONG);
  const declined = peers.find(({ answer }) => answer() !== '')!.answer();
  expect(declined).toMatch(/retry-after: 2\r\n[^]*"code":"SERVICE_UNAVAILABLE","retryable":true/i);
  expect((await bench.send(LIST, { key: bench.operator, ...WRONG })).status).toBe(422);
  for (const { socket } of peers) socket.destroy();
  await vi.waitUntil(async () => (await openRequests(bench)) === 0, LONG);
  // What they took is given back.
  expect((await bench.send(LIST, WRONG)).status).toBe(422);
});

test('a body that comes byte by byte takes no more memory than another', async () => {
  setFlagsFromString('--expose_gc');
  const collect = runInNewContext('gc') as () => void;
  const used = () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const before = used();
  let grown = 0;
  const read = Buffer.alloc(65_536, ' ');
  async function* parts() {
    for (let i = 0; i < 200_000; i += 1) yield read.subarray(i % read.length, (i % read.length) + 1);
    await setImmediate();
    grown = used() - before;
    yield Buffer.from('{}');
  }
  const headers = { 'content-type': 'application/json' };
  const headersDistinct = { 'content-type': [headers['content-type']] };
  const turn = () => Promise.resolve();
  const request = Object.assign(Readable.from(parts()), { headers, headersDistinct }) as never;
  const source = { request, response: null as never, limits: new CallerLimits(), countedAs: 'x', turn };
  expect(await readBody(source, { type: 'object', properties: {} })).toEqual({});
  expect(grown).toBeLessThan(4 * 1024 * 1024);
});

test('an answer to a caller without a key ends the connection, whatever it is', async () => {
  const stranger = (target: string, ...headers: string[]) =>
    [`GET ${target} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n');
  const texts = [
    stranger(LIST),
    stranger(LIST, 'authorization: Bearer wrong'),
    stranger('/healthz'),
    stranger('/no/such/path'),
    head('GET /v1/projects/other/jobs'),
  ];
  const peers = texts.map((text) => peer(used.bench, text));
  await Promise.all(peers.map(({ closed }) => closed));
  const statuses = await Promise.all(peers.map((one) => one.statuses(1)));
  expect(statuses).toEqual([[401], [401], [200], [404], [403]]);
});

test('one key has at most its number of connections, and they count no longer once they are closed', () =>
  withHttp({ connections: 20 }, async (own) => {
    const ask = () => peer(own, headOf(own, `GET ${LIST}`));
    const idle = Array.from({ length: 20 }, ask);
    for (const one of idle) expect(await one.statuses(1)).toEqual([200]);
    const more = ask();
    expect(await more.statuses(1)).toEqual([429]);
    await more.closed;
    // A second key of the same name and another key have limits of their own.
    for (const key of [own.namesake, own.operator]) expect((await own.send(LIST, { key })).status).toBe(200);
    for (const { socket } of idle) socket.destroy();
    await vi.waitUntil(async () => (await own.send(LIST)).status === 200, LONG);
  }));

/** Connections that say nothing, one after the other, and how many of them are open still. */
async function silentOnes(own: HttpBench, count: number, localAddress = '127.0.0.1') {
  const port = Number(new URL(own.http.url).port);
  const sockets: Socket[] = [];
  for (let i = 0; i < count; i += 1) {
    const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
    sockets.push(socket);
    await once(socket, 'connect');
  }
  return { sockets, open: () => sockets.map((socket) => !socket.closed) };
}
const states = (closed: number, open: number) => Array.from({ length: closed + open }, (_, i) => i >= closed);

test('of connections without a known key the one that has been silent longest makes room, never a new one', () =>
  withHttp({ strangers: 20, strangersPerAddress: 0 }, async (own) => {
    const known = peer(own, headOf(own, `GET ${LIST}`));
    expect(await known.statuses(1)).toEqual([200]);
    const body = ['content-type: application/json', 'content-length: 9', 'expect: 100-continue'];
    const waiting = peer(own, headOf(own, `POST ${LIST}`, ...body));
    expect(await waiting.statuses(1)).toEqual([100]);
    const { sockets, open } = await silentOnes(own, 50);
    await expect.poll(open).toEqual(states(30, 20));
    // One that has shown its key stays, a new one gets through, and takes the place of another only until it shows it.
    known.socket.write(headOf(own, `GET ${LIST}`));
    expect(await known.statuses(2)).toEqual([200, 200]);
    const callers = [];
    for (let i = 0; i < 30; i += 1) {
      const caller = peer(own, headOf(own, `GET ${LIST}`));
      expect(await caller.statuses(1)).toEqual([200]);
      callers.push(caller);
    }
    expect(await openRequests(own)).toBe(1);
    await expect.poll(open).toEqual(states(31, 19));
    for (const { socket } of [known, waiting, ...callers, ...sockets.map((socket) => ({ socket }))]) socket.destroy();
  }));

test('a connection whose key is just read has not been silent longest', () =>
  withHttp({ strangers: 5 }, async (own) => {
    const { callerOf } = CallerKeys.prototype;
    let release = () => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    const held = vi.spyOn(CallerKeys.prototype, 'callerOf').mockImplementation(async function (
      this: CallerKeys,
      given,
    ) {
      await released;
      return callerOf.call(this, given);
    });
    const asking = peer(own, '');
    await once(asking.socket, 'connect');
    const { sockets, open } = await silentOnes(own, 3);
    asking.socket.write(headOf(own, `GET ${LIST}`));
    await vi.waitUntil(() => held.mock.calls.length > 0);
    const more = await silentOnes(own, 3);
    await expect.poll(open).toEqual(states(2, 1));
    release();
    expect(await asking.statuses(1)).toEqual([200]);
    held.mockRestore();
    for (const socket of [asking.socket, ...sockets, ...more.sockets]) socket.destroy();
  }));

test('one address has at most its number of connections without a known key, and takes none from another', () =>
  withHttp({ strangersPerAddress: 5 }, async (own) => {
    const [one, other] = [await silentOnes(own, 4), await silentOnes(own, 4, '127.0.0.2')];
    const more = await silentOnes(own, 4);
    await expect.poll(one.open).toEqual(states(3, 1));
    expect([other.open(), more.open()]).toEqual([states(0, 4), states(0, 4)]);
    for (const socket of [one, other, more].flatMap(({ sockets }) => sockets)) socket.destroy();
    // Those that are closed count no longer, once the server has seen it.
    await vi.waitFor(async () => {
      const later = await silentOnes(own, 5);
      await delay(50);
      const open = later.open();
      for (const socket of later.sockets) socket.destroy();
      expect(open).toEqual(states(0, 5));
    }, LONG);
  }));

test('a network of IPv6 counts as one address, and IPv4 is the same by either name', () => {
  const networks = ['::1', '2001:db8:1:2::3', '2001:db8:1:2:ffff::', '2001:db8::7:6:5:4:3', 'fe80::1%eth0'].map(
    networkOf,
  );
  expect(networks).toEqual(['0:0:0:0', '2001:db8:1:2', '2001:db8:1:2', '2001:db8:0:7', 'fe80:0:0:0']);
  expect(['192.0.2.1', '::ffff:192.0.2.1', '::FFFF:192.0.2.1'].map(networkOf)).toEqual(Array(3).fill('192.0.2.1'));
});

test('a connection that closes while its key is read is not counted', () =>
  withHttp({ connections: 5 }, async (own) => {
    const callerOf = vi.spyOn(CallerKeys.prototype, 'callerOf');
    for (let i = 0; i < 20; i += 1) {
      const asked = callerOf.mock.calls.length;
      const { socket } = peer(own, headOf(own, `GET ${LIST}`));
      await vi.waitUntil(() => callerOf.mock.calls.length > asked, { interval: 1 });
      socket.resetAndDestroy();
    }
    await vi.waitUntil(async () => (await openRequests(own)) === 0, LONG);
    expect((await own.send(LIST)).status).toBe(200);
    callerOf.mockRestore();
  }));

test('requests that come together on one connection close it, and nothing of them stays', async () => {
  const { path, end } = await startIdle();
  const together = peer(used.bench, head(`GET ${path}/events`).repeat(10_000));
  await together.closed;
  await expect.poll(() => openRequests(used.bench)).toBe(0);
  const one = peer(used.bench, head(`GET ${path}/events`));
  expect(await one.statuses(1)).toEqual([200]);
  one.socket.write(head(`GET ${LIST}`));
  await one.closed;
  await expect.poll(() => openRequests(used.bench)).toBe(0);
  await end();
});

test('a connection takes one request after the other', async () => {
  const { socket, statuses } = peer(used.bench, head(`GET ${LIST}`));
  for (let count = 1; count <= 20; count += 1) {
    expect(await statuses(count)).toHaveLength(count);
    socket.write(head(`GET ${LIST}`));
  }
  socket.destroy();
});

test('a caller that asks too often learns when to come back, also without a known key, and others are not', () =>
  withHttp({ requests: 5 }, async (own) => {
    const ask = (key: string) => own.send(LIST, { key });
    for (const [key, status] of [
      [own.own, 200],
      ['unknown', 401],
    ] as const) {
      const answers = [];
      for (let i = 0; i < 12; i++) answers.push(await ask(key));
      expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([status, 429]));
      const { headers, body } = answers.find((answer) => answer.status === 429)!;
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(body).toMatchObject({ code: 'TOO_MANY_REQUESTS', retryable: true });
    }
    expect((await ask(own.operator)).status).toBe(200);
    await vi.waitUntil(async () => (await ask(own.own)).status === 200, { ...LONG, interval: 1_500 });
  }));

test('probes at an address of their own are answered while no caller is, and end with the server', async () => {
  let url = '';
  await withHttp({ requests: 0 }, async (busy) => {
    url = await busy.http.listenForProbes({ host: '127.0.0.1', port: 0 });
    expect((await busy.send('/healthz')).status).toBe(429);
    const paths = ['/healthz', '/readyz?from=kubelet', '/metrics', LIST];
    const asked = [...paths.map((path) => fetch(url + path)), fetch(`${url}/healthz`, { method: 'POST' })];
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200, 404, 405]);
  });
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

test('a client that vanishes while its job is described leaves no interval behind', async () => {
  const { path, end } = await startIdle();
  const caller = await connectHeldCaller(used.server);
  await withHttp(
    {},
    async (own) => {
      const ask = () => peer(own, headOf(own, `GET ${path}/events`));
      const intervals = vi.spyOn(globalThis, 'setInterval');
      caller.hold('DescribeWorkflowExecution');
      const [stays, goes] = [ask(), ask()];
      await caller.isHeld;
      await vi.waitUntil(async () => (await openRequests(own)) === 2, LONG);
      goes.socket.destroy();
      await vi.waitUntil(async () => (await openRequests(own)) === 1, LONG);
      caller.release();
      expect(await stays.statuses(1)).toEqual([200]);
      expect(intervals).toHaveBeenCalledTimes(1);
      intervals.mockRestore();
    },
    caller.jobs,
  );
  await caller.close();
  await end();
});

test('a body of a shape that no call needs is declined before it is parsed; texts do not count', async () => {
  const problemOf = (json: string) => {
    try {
      return checkShape(Buffer.from(json));
    } catch (error) {
      return (error as Error).message;
    }
  };
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const many = (values: number) => `[${'1,'.repeat(values - 1)}1]`;
  const texts = ['['.repeat(500), '"\\"[[['.repeat(200), ','.repeat(50_000), '\\'.repeat(999), '\\",['.repeat(999)].map(
    (prompt) => JSON.stringify({ prompt }),
  );
  const fine = [nested(100), many(20_000), '[{}],'.repeat(1_000), ...texts];
  expect(fine.map(problemOf).filter(Boolean)).toEqual([]);
  expect(problemOf(nested(101))).toMatch(/more than 100 levels/);
  for (const wide of [many(20_001), '[{},{}],'.repeat(7_000), `{${'"a":1,'.repeat(20_001)}}`, '""'.repeat(40_001)]) {
    expect(problemOf(wide)).toMatch(/more than 20000 values/);
  }
  const declined = peer(used.bench, whole('k', `{"metadata":${'['.repeat(200_000)}`));
  const shown = expect.stringContaining('more than 100 levels');
  expect([await declined.statuses(1), declined.answer()]).toEqual([[400], shown]);
  declined.socket.destroy();
});

test('a second key behind two thousand headers is seen', async () => {
  const many = Array.from({ length: 2_100 }, () => 'a:');
  const declined = peer(used.bench, head(`GET ${LIST}`, ...many, 'authorization: Bearer other'));
  expect(await declined.statuses(1)).toEqual([400]);
  declined.socket.destroy();
});

test('HEAD of a stream is answered, and streams nothing', async () => {
  const { path, end } = await startIdle();
  const asked = await used.bench.send(`${path}/events`, { method: 'HEAD' });
  expect([asked.status, asked.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  expect(asked.headers.get('cache-control')).toContain('no-transform');
  expect(await openRequests(used.bench)).toBe(0);
  await end();
});

test('a body is asked for once the key is known, and HTTP/1.0 gets no answer 100', async () => {
  const body = JSON.stringify({ prompt: 1 });
  const asking = start('k', 'expect: 100-continue', `content-length: ${body.length}`);
  const refused = peer(used.bench, asking.replace(used.bench.own, 'wrong'));
  await refused.closed;
  expect(await refused.statuses(1)).toEqual([401]);
  const asked = peer(used.bench, asking);
  expect(await asked.statuses(1)).toEqual([100]);
  asked.socket.write(body);
  expect(await asked.statuses(2)).toEqual([100, 422]);
  asked.socket.destroy();
  const old = peer(used.bench, asking.replace('HTTP/1.1', 'HTTP/1.0') + body);
  // It would take that for the answer.
  expect(await old.statuses(1)).toEqual([422]);
  old.socket.destroy();
});

test('what is no request comes after the answer to the request before, which is its own', async () => {
  const key = randomUUID();
  const both = peer(used.bench, whole(key, JSON.stringify({ prompt: 'x' })) + 'GARBAGE\r\n\r\n');
  // All of it comes before the answer: a write after the end would close this side before it read the answer.
  for (let times = 0; times < 5; times++) {
    await delay(50);
    both.socket.write('GARBAGE\r\n\r\n');
  }
  await both.closed;
  expect(await both.statuses(1)).toEqual([201]);
  expect(both.answer()).toContain('"isNew":true');
  await used.server.client.workflow.getHandle(agentJobWorkflowId(OWN, key)).terminate();
});

test('a byte order mark belongs to a key, and to no body', async () => {
  const key = randomUUID();
  const marked = Buffer.from(`\ufeff${key}`).toString('latin1');
  const send = async (name: string, body: string) => {
    const { statuses, socket } = peer(used.bench, Buffer.from(whole(name, body), 'latin1'));
    const [status] = await statuses(1);
    socket.destroy();
    return status;
  };
  const body = JSON.stringify({ prompt: 'x' });
  // Two keys, two jobs.
  expect([await send(key, body), await send(marked, body)]).toEqual([201, 201]);
  expect(await send(key, Buffer.from(`\ufeff${body}`).toString('latin1'))).toBe(400);
  for (const name of [key, `\ufeff${key}`])
    await used.server.client.workflow.getHandle(agentJobWorkflowId(OWN, name)).terminate();
});

test('a client that closes its half has gone: nothing of it stays open', async () => {
  const waiting = peer(used.bench, start('k', 'content-length: 100') + '{');
  await expect.poll(() => openRequests(used.bench)).toBe(1);
  waiting.socket.end();
  await waiting.closed;
  await expect.poll(() => openRequests(used.bench)).toBe(0);
});

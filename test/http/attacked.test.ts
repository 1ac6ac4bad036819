/** Callers that take more than their share, or speak HTTP in ways of their own: what each leaves to the others. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { agentJobWorkflowId } from '../../src/contract.js';
import { checkShape } from '../../src/http/limits.js';
import { AgentJobs } from '../../src/starter.js';
import { connectHeldCaller } from '../support/held-caller.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { type HttpBench, startHttp } from './http-server.js';

const OWN = 'acme';
let server: TestServer;
let jobs: AgentJobs;
let bench: HttpBench;
beforeAll(async () => {
  server = await connectDevServer();
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  bench = await startHttp(jobs, OWN, { bodyBytes: 8 * 1024 * 1024 });
});
afterAll(async () => {
  await bench.close();
  await server.close();
});

interface Peer {
  socket: Socket;
  /** All that came so far. */
  answer: () => string;
  /** The statuses of all that came, once there are so many. */
  statuses: (count: number) => Promise<number[]>;
  closed: Promise<unknown>;
}

/** A connection of its own, over which this was sent. */
function peer(text: string | Buffer, url = bench.http.url): Peer {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {});
  let answer = '';
  socket.on('data', (data) => (answer += data.toString('latin1')));
  socket.write(text);
  const all = () => [...answer.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => Number(status));
  const statuses = async (count: number) => {
    await vi.waitUntil(() => all().length >= count, { timeout: 60_000, interval: 20 });
    return all();
  };
  return { socket, answer: () => answer, statuses, closed: once(socket, 'close') };
}

const head = (first: string, ...headers: string[]) =>
  [first, 'host: x', `authorization: Bearer ${bench.own}`, ...headers, '', ''].join('\r\n');
const start = (key: string, ...headers: string[]) =>
  head(
    `POST /v1/projects/${OWN}/jobs HTTP/1.1`,
    `idempotency-key: ${key}`,
    'content-type: application/json',
    ...headers,
  );
const whole = (key: string, body: string) => start(key, `content-length: ${body.length}`) + body;
const list = `GET /v1/projects/${OWN}/jobs HTTP/1.1`;
const openRequests = async (of: HttpBench) =>
  Number(/open_requests (\d+)/.exec((await of.send('/metrics')).body as string)![1]) - 1;

test('unfinished bodies take bounded memory, a quarter of it a key, and other callers still get through', async () => {
  const part = 1024 * 1024;
  const text = start('k', `content-length: ${2 * part}`) + ' '.repeat(part);
  const peers = Array.from({ length: 12 }, () => peer(text));
  // Two fit; the others are answered, and no body is kept for them.
  await vi.waitUntil(() => peers.filter(({ answer }) => answer().includes(' 503 ')).length === 10, { timeout: 60_000 });
  const refused = peers.find(({ answer }) => answer() !== '')!.answer();
  expect(refused).toMatch(/retry-after: 2\r\n[^]*"code":"SERVICE_UNAVAILABLE","retryable":true/i);
  const other = await bench.send(`/v1/projects/${OWN}/jobs`, {
    key: bench.operator,
    body: { prompt: 1 },
    headers: { 'idempotency-key': 'x' },
  });
  expect(other.status).toBe(422);
  for (const { socket } of peers) socket.destroy();
  await vi.waitUntil(async () => (await openRequests(bench)) === 0, { timeout: 60_000 });
  // What they took is given back.
  const own = await bench.send(`/v1/projects/${OWN}/jobs`, {
    body: { prompt: 1 },
    headers: { 'idempotency-key': 'x' },
  });
  expect(own.status).toBe(422);
});

test('an answer to a caller without a key ends the connection, whatever it is', async () => {
  const stranger = (target: string, ...headers: string[]) =>
    [`GET ${target} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n');
  const texts = [
    stranger(`/v1/projects/${OWN}/jobs`),
    stranger('/v1/projects/acme/jobs', 'authorization: Bearer wrong'),
    stranger('/healthz'),
    stranger('/no/such/path'),
    head('GET /v1/projects/other/jobs HTTP/1.1'),
  ];
  const peers = texts.map((text) => peer(text));
  await Promise.all(peers.map(({ closed }) => closed));
  const statuses = await Promise.all(peers.map((one) => one.statuses(1)));
  expect(statuses).toEqual([[401], [401], [200], [404], [403]]);
});

test('one key has so many connections and no more, and they count no longer once they are closed', async () => {
  const own = await startHttp(jobs, OWN, { connections: 20 });
  const ask = () => peer(head(list).replace(bench.own, own.own), own.http.url);
  const idle = Array.from({ length: 20 }, ask);
  for (const one of idle) expect(await one.statuses(1)).toEqual([200]);
  const more = ask();
  expect(await more.statuses(1)).toEqual([429]);
  await more.closed;
  // A second key of the same name and another key have limits of their own.
  for (const key of [own.namesake, own.operator]) {
    expect((await own.send(`/v1/projects/${OWN}/jobs`, { key })).status).toBe(200);
  }
  for (const { socket } of idle) socket.destroy();
  await vi.waitUntil(async () => (await own.send(`/v1/projects/${OWN}/jobs`)).status === 200, { timeout: 60_000 });
  await own.close();
});

test('probes at an address of their own are answered while no caller is, and end with the server', async () => {
  const busy = await startHttp(jobs, OWN, { requests: 0 });
  const url = await busy.http.listenForProbes({ host: '127.0.0.1', port: 0 });
  expect((await busy.send('/healthz')).status).toBe(429);
  const paths = ['/healthz', '/readyz?from=kubelet', '/metrics', '/v1/projects/acme/jobs'];
  const asked = [...paths.map((path) => fetch(url + path)), fetch(`${url}/healthz`, { method: 'POST' })];
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200, 404, 405]);
  await busy.close();
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

test('a client that vanishes while its job is looked up leaves no interval behind', async () => {
  const { workflowId } = await jobs.start({ projectId: OWN, key: `gone-${randomUUID()}`, prompt: 'x' });
  const caller = await connectHeldCaller(server);
  const own = await startHttp(caller.jobs, OWN);
  const path = `/v1/jobs/${Buffer.from(workflowId).toString('base64url')}/events`;
  const ask = () => peer(head(`GET ${path} HTTP/1.1`).replace(bench.own, own.own), own.http.url);
  const intervals = vi.spyOn(globalThis, 'setInterval');
  caller.hold('DescribeWorkflowExecution');
  const [stays, goes] = [ask(), ask()];
  await caller.isHeld;
  await vi.waitUntil(async () => (await openRequests(own)) === 2, { timeout: 60_000 });
  goes.socket.destroy();
  await vi.waitUntil(async () => (await openRequests(own)) === 1, { timeout: 60_000 });
  caller.release();
  expect(await stays.statuses(1)).toEqual([200]);
  expect(intervals).toHaveBeenCalledTimes(1);
  intervals.mockRestore();
  await own.close();
  await caller.close();
  await server.client.workflow.getHandle(workflowId).terminate();
});

test('a body of a shape that no call needs is refused before it is parsed; texts do not count', async () => {
  const refusal = (json: string) => {
    try {
      return checkShape(Buffer.from(json));
    } catch (error) {
      return (error as Error).message;
    }
  };
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const many = (values: number) => `[${'1,'.repeat(values - 1)}1]`;
  const texts = ['['.repeat(500), '"\\"[[['.repeat(200), ','.repeat(50_000)].map((prompt) =>
    JSON.stringify({ prompt }),
  );
  const fine = [nested(100), many(20_000), '[{}],'.repeat(1_000), ...texts];
  expect(fine.map(refusal).filter(Boolean)).toEqual([]);
  expect(refusal(nested(101))).toMatch(/more than 100 levels/);
  for (const wide of [many(20_001), '[{},{}],'.repeat(7_000), `{${'"a":1,'.repeat(20_001)}}`]) {
    expect(refusal(wide)).toMatch(/more than 20000 values/);
  }
  const refused = peer(whole('k', `{"metadata":${'['.repeat(200_000)}`));
  const told = expect.stringContaining('more than 100 levels');
  expect([await refused.statuses(1), refused.answer()]).toEqual([[400], told]);
  refused.socket.destroy();
});

test('a second key behind two thousand headers is seen', async () => {
  const many = Array.from({ length: 2_100 }, () => 'a:');
  const refused = peer(head(list, ...many, 'authorization: Bearer other'));
  expect(await refused.statuses(1)).toEqual([400]);
  refused.socket.destroy();
});

test('HEAD of a stream is answered, and streams nothing', async () => {
  const { workflowId } = await jobs.start({ projectId: OWN, key: `head-${randomUUID()}`, prompt: 'x' });
  const asked = await bench.send(`/v1/jobs/${Buffer.from(workflowId).toString('base64url')}/events`, {
    method: 'HEAD',
  });
  expect([asked.status, asked.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  expect(asked.headers.get('cache-control')).toContain('no-transform');
  expect(await openRequests(bench)).toBe(0);
  await server.client.workflow.getHandle(workflowId).terminate();
});

test('a body is asked for once the key is known', async () => {
  const body = JSON.stringify({ prompt: 1 });
  const asking = start('k', 'expect: 100-continue', `content-length: ${body.length}`);
  const refused = peer(asking.replace(bench.own, 'wrong'));
  await refused.closed;
  expect(await refused.statuses(1)).toEqual([401]);
  const asked = peer(asking);
  expect(await asked.statuses(1)).toEqual([100]);
  asked.socket.write(body);
  expect(await asked.statuses(2)).toEqual([100, 422]);
  asked.socket.destroy();
});

test('a target that names a server is refused, whatever the server', async () => {
  for (const target of ['http://x/v1/projects/acme/jobs', 'http://localhost/healthz', '*']) {
    const refused = peer(head(`GET ${target} HTTP/1.1`));
    expect([await refused.statuses(1), refused.answer()]).toEqual([[400], expect.stringContaining('must be a path')]);
    refused.socket.destroy();
  }
});

test('what is no request comes after the answer to the request before, which is its own', async () => {
  const key = randomUUID();
  const both = peer(whole(key, JSON.stringify({ prompt: 'x' })) + 'GARBAGE\r\n\r\n');
  await both.closed;
  expect(await both.statuses(1)).toEqual([201]);
  expect(both.answer()).toContain('"isNew":true');
  await server.client.workflow.getHandle(agentJobWorkflowId(OWN, key)).terminate();
});

test('a byte order mark belongs to a key, and to no body', async () => {
  const key = randomUUID();
  const marked = Buffer.from(`\ufeff${key}`).toString('latin1');
  const send = async (name: string, body: string) => {
    const { statuses, socket } = peer(Buffer.from(whole(name, body), 'latin1'));
    const [status] = await statuses(1);
    socket.destroy();
    return status;
  };
  const body = JSON.stringify({ prompt: 'x' });
  // Two keys, two jobs.
  expect([await send(key, body), await send(marked, body)]).toEqual([201, 201]);
  expect(await send(key, Buffer.from(`\ufeff${body}`).toString('latin1'))).toBe(400);
  for (const name of [key, `\ufeff${key}`])
    await server.client.workflow.getHandle(agentJobWorkflowId(OWN, name)).terminate();
});

test('a client that closes its half has gone: nothing of it stays open', async () => {
  const waiting = peer(start('k', 'content-length: 100') + '{');
  await expect.poll(() => openRequests(bench)).toBe(1);
  waiting.socket.end();
  await waiting.closed;
  await expect.poll(() => openRequests(bench)).toBe(0);
});

test('the type of a body may name its charset in both of the usual ways', async () => {
  for (const charset of ['utf-8', 'utf8', '"UTF-8"']) {
    const headers = { 'content-type': `application/json; charset=${charset}`, 'idempotency-key': 'k' };
    expect((await bench.send(`/v1/projects/${OWN}/jobs`, { body: { prompt: 1 }, headers })).status).toBe(422);
  }
});

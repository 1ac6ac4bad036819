/** What a caller took of the server is free again, however its connection ended. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { CallerKeys } from '../../src/http/keys.js';
import { CallerLimits } from '../../src/http/limits.js';
import { readBody } from '../../src/http/request.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { type HttpBench, startHttp } from './http-server.js';

const OWN = 'acme';
let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(() => server.close());

const openConnection = ({ http }: HttpBench) =>
  connect(Number(new URL(http.url).port), '127.0.0.1').on('error', () => {});
const requestText = ({ own }: HttpBench, first: string, ...headers: string[]) =>
  [`${first} HTTP/1.1`, 'host: x', `authorization: Bearer ${own}`, ...headers, '', ''].join('\r\n');
const openRequests = async (of: HttpBench) =>
  Number(/open_requests (\d+)/.exec((await of.send('/metrics')).body as string)![1]) - 1;

test('requests that came together on one connection are forgotten when it breaks', async () => {
  const bench = await startHttp(jobs, OWN);
  const { workflowId } = await jobs.start({ projectId: OWN, key: 'together', prompt: 'x' });
  const socket = openConnection(bench);
  const path = `/v1/jobs/${Buffer.from(workflowId).toString('base64url')}/events`;
  socket.write(requestText(bench, `GET ${path}`).repeat(10));
  await vi.waitUntil(async () => (await openRequests(bench)) === 10, { timeout: 60_000 });
  socket.destroy();
  await expect.poll(() => openRequests(bench), { timeout: 5_000 }).toBe(0);
  await bench.close();
  await server.client.workflow.getHandle(workflowId).terminate();
});

test('a connection that closes while its key is looked up is not counted', async () => {
  const bench = await startHttp(jobs, OWN, { connections: 5 });
  const callerOf = vi.spyOn(CallerKeys.prototype, 'callerOf');
  for (let i = 0; i < 20; i += 1) {
    const socket = openConnection(bench);
    const asked = callerOf.mock.calls.length;
    socket.write(requestText(bench, `GET /v1/projects/${OWN}/jobs`));
    await vi.waitUntil(() => callerOf.mock.calls.length > asked, { interval: 1 });
    socket.resetAndDestroy();
  }
  await vi.waitUntil(async () => (await openRequests(bench)) === 0, { timeout: 60_000 });
  expect((await bench.send(`/v1/projects/${OWN}/jobs`)).status).toBe(200);
  callerOf.mockRestore();
  await bench.close();
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
  const request = Object.assign(Readable.from(parts()), { headers, headersDistinct }) as never;
  const source = { request, response: null as never, limits: new CallerLimits(), countedAs: 'x' };
  expect(await readBody(source, { type: 'object', properties: {} })).toEqual({});
  expect(grown).toBeLessThan(4 * 1024 * 1024);
});

test('requests that come together on one connection are limited as connections are', async () => {
  const bench = await startHttp(jobs, OWN, { connections: 5 });
  const { workflowId } = await jobs.start({ projectId: OWN, key: 'limited', prompt: 'x' });
  const socket = openConnection(bench);
  const path = `/v1/jobs/${Buffer.from(workflowId).toString('base64url')}/events`;
  socket.write(requestText(bench, `GET ${path}`).repeat(20));
  await expect.poll(() => bench.send(`/v1/projects/${OWN}/jobs`).then(({ status }) => status)).toBe(429);
  await vi.waitUntil(async () => (await bench.send('/metrics')).body.includes('status="429"'), { timeout: 60_000 });
  socket.destroy();
  await expect.poll(() => bench.send(`/v1/projects/${OWN}/jobs`).then(({ status }) => status)).toBe(200);
  await bench.close();
  await server.client.workflow.getHandle(workflowId).terminate();
});

test('HTTP/1.0 is not told to continue: it would take that for the answer', async () => {
  const bench = await startHttp(jobs, OWN);
  const headers = ['idempotency-key: k', 'content-type: application/json', 'expect: 100-continue', 'content-length: 2'];
  const socket = openConnection(bench);
  socket.write(requestText(bench, `POST /v1/projects/${OWN}/jobs`, ...headers).replace('HTTP/1.1', 'HTTP/1.0') + '{}');
  const [first] = (await once(socket, 'data')) as [Buffer];
  expect(first.toString('latin1')).toMatch(/^HTTP\/1\.\d 422/);
  socket.destroy();
  await bench.close();
});

test('an answer that is not read ends with its connection', async () => {
  const bench = await startHttp(jobs, OWN, { unreadMs: 1_000 });
  const title = 'x'.repeat(32 * 1024 * 1024);
  const page = vi
    .spyOn(jobs, 'listPage')
    .mockResolvedValue({ jobs: [{ workflowId: 'w', title }] as never[], nextCursor: null });
  const socket = openConnection(bench).pause();
  socket.write(requestText(bench, `GET /v1/projects/${OWN}/jobs`));
  await vi.waitUntil(() => page.mock.settledResults.length > 0);
  await expect.poll(() => openRequests(bench), { timeout: 20_000 }).toBe(0);
  page.mockRestore();
  socket.destroy();
  await bench.close();
});

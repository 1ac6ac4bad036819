/** The HTTP server over a real Temporal server, a worker and a sandbox, and a caller over real sockets. */
import { createHash, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, vi } from 'vitest';
import { CallerKeys } from '../../src/http/keys.js';
import type { Limits } from '../../src/http/limits.js';
import { HttpServer } from '../../src/http/server.js';
import { AgentJobs } from '../../src/starter.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { newFolder } from '../support/folder.js';

interface HttpAnswer {
  status: number;
  headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- what a test reads of it, it compares
  body: any;
}

interface RequestOptions {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  key?: string | null;
  signal?: AbortSignal;
}

/** A server with keys: one sees the test's own project alone, and one sees all. */
export interface HttpBench {
  http: HttpServer;
  keysFile: string;
  problems: string[];
  own: string;
  /** Another key with the same name. */
  namesake: string;
  operator: string;
  /** It sees the test's own project, and may only read. */
  reader: string;
  send(path: string, options?: RequestOptions): Promise<HttpAnswer>;
  close(): Promise<void>;
}

export const hashOf = (key: string) => createHash('sha256').update(key).digest('hex');

export async function startHttp(jobs: AgentJobs, projectId: string, limits?: Partial<Limits>): Promise<HttpBench> {
  const folder = newFolder();
  const keysFile = join(folder, 'keys.json');
  const [own, namesake, operator, reader] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  const keys = {
    [hashOf(own)]: { name: 'own', projects: [projectId] },
    [hashOf(namesake)]: { name: 'own', projects: [projectId] },
    [hashOf(operator)]: { name: 'operator', projects: '*' },
    [hashOf(reader)]: { name: 'reader', projects: [projectId], access: 'read' },
  };
  await writeFile(keysFile, JSON.stringify(keys));
  const problems: string[] = [];
  const onProblem = (problem: string) => void problems.push(problem);
  const callers = new CallerKeys(keysFile, onProblem, 0);
  const service = { connect: () => Promise.resolve(jobs), keys: callers, version: '1.2.3', limits, onProblem };
  const http = await HttpServer.listen(service, { host: '127.0.0.1', port: 0 });
  return {
    http,
    keysFile,
    problems,
    own,
    namesake,
    operator,
    reader,
    send: (path, options) => send(http.url + path, { key: own, ...options }),
    async close() {
      await http.end();
    },
  };
}

/** The project of the keys that see one alone. */
export const OWN = 'acme';
export const LIST = `/v1/projects/${OWN}/jobs`;

/** A server without a worker, for the tests of one file. */
export function useHttp(limits?: Partial<Limits>): { server: TestServer; jobs: AgentJobs; bench: HttpBench } {
  const used = {} as { server: TestServer; jobs: AgentJobs; bench: HttpBench };
  beforeAll(async () => {
    used.server = await connectDevServer();
    used.jobs = new AgentJobs({ client: used.server.client, taskQueue: used.server.taskQueue });
    used.bench = await startHttp(used.jobs, OWN, limits);
  });
  afterAll(async () => {
    await used.bench.close();
    await used.server.close();
  });
  return used;
}

/** The second address of a job. */
export const byId = (workflowId: string) => `/v1/jobs/${Buffer.from(workflowId).toString('base64url')}`;

/** The head of a request with the key that sees one project. */
export const headOf = ({ own }: HttpBench, first: string, ...headers: string[]) =>
  [`${first} HTTP/1.1`, 'host: x', `authorization: Bearer ${own}`, ...headers, '', ''].join('\r\n');

export const statusesIn = (text: string) =>
  [...text.matchAll(/^HTTP\/1\.\d (\d+)/gm)].map(([, status]) => Number(status));

interface Peer {
  socket: Socket;
  /** All that came so far. */
  answer: () => string;
  /** The statuses of all that came, once there are `count`. */
  statuses: (count: number) => Promise<number[]>;
  closed: Promise<unknown>;
}

/** A connection of its own, over which this was sent. */
export function peer({ http }: HttpBench, text: string | Buffer): Peer {
  const socket = connect(Number(new URL(http.url).port), '127.0.0.1').on('error', () => {});
  let answer = '';
  socket.on('data', (data) => (answer += data.toString('latin1')));
  socket.write(text);
  const statuses = async (count: number) => {
    await vi.waitUntil(() => statusesIn(answer).length >= count, { timeout: 60_000, interval: 20 });
    return statusesIn(answer);
  };
  const closed = new Promise((resolve) => socket.once('close', resolve));
  return { socket, answer: () => answer, statuses, closed };
}

/** Requests without their whole answer, but for the one that asks. */
export const openRequests = async (of: HttpBench) =>
  Number(/open_requests (\d+)/.exec((await of.send('/metrics')).body as string)![1]) - 1;

/** With a worker and a sandbox. */
export interface HttpJobServer extends JobServer {
  bench: HttpBench;
  /** Starts a job under a new key, and answers with its path. */
  startJob(prompt?: string): Promise<string>;
}

export async function startHttpJobServer(): Promise<HttpJobServer> {
  const server = await startJobServer();
  const bench = await startHttp(server.jobs, server.projectId);
  return {
    ...server,
    bench,
    async startJob(prompt = 'do it') {
      const headers = { 'idempotency-key': randomUUID() };
      const path = `/v1/projects/${server.projectId}/jobs`;
      const { headers: told } = await bench.send(path, { body: { prompt, ...QUICK }, headers });
      return told.get('location')!;
    },
    async close() {
      await bench.close();
      await server.close();
    },
  };
}

/** Sends one request; what is no text is sent as JSON. */
async function send(url: string, { method, body, headers = {}, key, signal }: RequestOptions): Promise<HttpAnswer> {
  const isText = typeof body === 'string';
  const response = await fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(key != null && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
  });
  const text = await response.text();
  const isJson = text !== '' && /json/.test(response.headers.get('content-type') ?? '');
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}

/** Answers that their readers do not take: how many bytes wait, for whom there is no more room, and what ends. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { beforeAll, expect, test, vi } from 'vitest';
import { agentJobOf, LIMIT } from '../../src/contract.js';
import type { Limits } from '../../src/http/limits.js';
import { QUICK } from '../client/job-server.js';
import { headOf, type HttpBench, startHttp, startHttpJobServer } from './http-server.js';
import { useForFile } from '../support/use.js';

const READERS = new URL('unread.py', import.meta.url).pathname;
const PATIENCE = { timeout: 60_000, interval: 300 };
/** What each of the long states has at least. */
const LONG_BYTES = LIMIT.followUpsPerJob * LIMIT.followUpIdBytes;

const server = useForFile(startHttpJobServer);
/** Paths of jobs with long states. */
let long: string[];
beforeAll(async () => {
  long = await Promise.all([longJob(), longJob(), longJob()]);
});

/** A job that goes on, with as many used ids as there may be: their bytes are all in its state. */
async function longJob(): Promise<string> {
  const prompt = `endless ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
  const path = await server.startJob(prompt);
  const stateOf = async (of: string) => (await server.bench.send(of)).body.state;
  const jobId = await vi.waitUntil(async () => (await stateOf(path))?.jobId, PATIENCE);
  const used = Array.from({ length: LIMIT.followUpsPerJob }, (_, i) => `${i}`.padEnd(LIMIT.followUpIdBytes, 'x'));
  const { headers } = await server.bench.send(`/v1/projects/${server.projectId}/jobs`, {
    body: { jobId, usedFollowUpIds: used, ...QUICK },
    headers: { 'idempotency-key': randomUUID() },
  });
  const attached = headers.get('location')!;
  await vi.waitUntil(() => stateOf(attached), PATIENCE);
  return attached;
}

async function withHttp(limits: Partial<Limits>, work: (own: HttpBench) => Promise<void>) {
  const own = await startHttp(server.jobs, server.projectId, limits);
  try {
    await work(own);
  } finally {
    await own.close();
  }
}

interface Readers {
  statuses: number[];
  end: () => Promise<unknown>;
}

/** Connections that send a request, and read nothing of the answer but its status. */
async function readers({ http }: HttpBench, count: number, request: string): Promise<Readers> {
  const args = [READERS, new URL(http.url).port, String(count)];
  const program = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(program, 'close');
  program.stdin.write(`${JSON.stringify(request)}\n`);
  const [line] = (await once(createInterface(program.stdout), 'line')) as [string];
  const statuses = (JSON.parse(line) as string[]).map((status) => Number(status.slice(-3)));
  return { statuses, end: () => (program.stdin.end(), closed) };
}

/** Readers of a state, none of which a busy machine answers too late. */
function readersInTime(own: HttpBench, count: number, path: string): Promise<Readers> {
  return vi.waitFor(async () => {
    const asked = await readers(own, count, headOf(own, `GET ${path}`));
    const late = asked.statuses.filter((status) => status !== 200 && status !== 503);
    if (late.length === 0) return asked;
    await asked.end();
    await expect.poll(() => unreadBytes(own)).toBe(0);
    throw new Error(`other answers: ${late.join(', ')}`);
  }, PATIENCE);
}

/** A sample of the server's own metrics. */
async function gauge(own: HttpBench, name: string): Promise<number> {
  const { body } = await own.send('/metrics');
  return Number(new RegExp(`agent_jobs_http_${name} (\\d+)`).exec(body as string)?.[1]);
}
const openStreams = (own: HttpBench) => gauge(own, 'open_streams');
const unreadBytes = (own: HttpBench) => gauge(own, 'unread_bytes');
const streamOf = (own: HttpBench, path: string) => headOf(own, `GET ${path}/events`);

test('a state waits once, however many streams of it are not read', () =>
  withHttp({ answerBytes: 8 * LONG_BYTES, silentMs: 0 }, async (own) => {
    const { statuses, end } = await readers(own, 40, streamOf(own, long[0]!));
    expect(new Set(statuses)).toEqual(new Set([200]));
    await expect.poll(() => unreadBytes(own)).toBeGreaterThan(LONG_BYTES);
    expect(await unreadBytes(own)).toBeLessThan(2 * LONG_BYTES);
    expect(await openStreams(own)).toBe(40);
    await end();
    await expect.poll(() => unreadBytes(own)).toBe(0);
  }));

test('answers over a quarter of what may wait are 503 before they begin, for their key alone', () =>
  withHttp({ answerBytes: 10 * LONG_BYTES }, async (own) => {
    const { statuses, end } = await readersInTime(own, 12, long[0]!);
    expect([200, 503].map((status) => statuses.filter((one) => one === status).length)).toEqual([2, 10]);
    const declined = await own.send(long[0]!);
    expect([declined.status, declined.headers.get('retry-after')]).toEqual([503, '2']);
    expect(declined.body).toMatchObject({ code: 'SERVICE_UNAVAILABLE', retryable: true });
    expect((await own.send(long[0]!, { key: own.namesake })).status).toBe(200);
    await end();
    await expect.poll(async () => (await own.send(long[0]!)).status).toBe(200);
  }));

test('a stream waits for room, and takes that of the stream that has been silent longest', async () => {
  const answerBytes = 6 * LONG_BYTES;
  await withHttp({ answerBytes }, async (own) => {
    const silent = await readers(own, 2, streamOf(own, long[0]!));
    await expect.poll(() => unreadBytes(own)).toBeGreaterThan(LONG_BYTES);
    const waiting = await readers(own, 1, streamOf(own, long[1]!));
    // None has been silent for the limit: no one is closed.
    expect((await own.send(long[1]!)).status).toBe(503);
    expect([await openStreams(own), await unreadBytes(own)]).toEqual([3, expect.closeTo(LONG_BYTES, -5)]);
    await Promise.all([silent.end(), waiting.end()]);
  });
  await withHttp({ answerBytes: 10 * LONG_BYTES, silentMs: 500 }, async (own) => {
    const plain = await readers(own, 1, headOf(own, 'GET /openapi.json'));
    const first = await readers(own, 1, streamOf(own, long[0]!));
    await expect.poll(() => unreadBytes(own)).toBeGreaterThan(LONG_BYTES);
    const second = await readers(own, 1, streamOf(own, long[1]!));
    await expect.poll(() => unreadBytes(own)).toBeGreaterThan(2 * LONG_BYTES);
    const third = await readers(own, 1, streamOf(own, long[2]!));
    await expect.poll(() => openStreams(own)).toBe(2);
    // What is no stream has all of its time.
    expect(await gauge(own, 'open_requests')).toBe(4);
    // It was not the second one that went.
    await second.end();
    await expect.poll(() => openStreams(own)).toBe(1);
    await Promise.all([plain.end(), first.end(), third.end()]);
  });
});

test('every answer that is not read ends, whatever its caller sends meanwhile', () =>
  withHttp({ unreadMs: 2_000 }, async (own) => {
    const workflowId = Buffer.from(long[0]!.split('/').at(-1)!, 'base64url').toString();
    const { key } = agentJobOf(workflowId)!;
    const call = { name: 'get_job', arguments: { projectId: server.projectId, key } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call });
    const mcp = ['content-type: application/json', `content-length: ${body.length}`];
    const requests = [
      streamOf(own, long[0]!),
      headOf(own, `GET ${long[0]}`),
      headOf(own, 'POST /mcp', ...mcp, 'accept: application/json, text/event-stream') + body,
    ];
    const all = await Promise.all(requests.map((request) => readers(own, 1, request)));
    expect(all.map(({ statuses }) => statuses)).toEqual([[200], [200], [200]]);
    await expect.poll(() => unreadBytes(own)).toBeGreaterThan(3 * LONG_BYTES);
    await expect.poll(() => unreadBytes(own)).toBe(0);
    expect(await gauge(own, 'open_requests')).toBe(1);
    await Promise.all(all.map(({ end }) => end()));
  }));

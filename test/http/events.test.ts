/** Server-sent events: what is sent, in which order, and to a caller that comes back; and what is left of thousands. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { startHttp, startHttpJobServer } from './http-server.js';
import { useForFile } from '../support/use.js';

const PATIENCE = { timeout: 120_000, interval: 300 };

const server = useForFile(startHttpJobServer);

interface Event {
  event?: string;
  id?: string;
  retry?: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- what a test reads of it, it compares
  data?: any;
}

/** Parses all that came of a stream; comments count as events without fields. */
function eventsOf(text: string): Event[] {
  const blocks = text.split('\n\n').slice(0, -1);
  return blocks.map((block) => {
    const fields = block.split('\n').flatMap((line) => (line.startsWith(':') ? [] : [line.split(/: (.*)/s, 2)]));
    const { data, ...others } = Object.fromEntries(fields) as Record<string, string>;
    return { ...others, ...(data !== undefined && { data: JSON.parse(data) as unknown }) };
  });
}

const eventsIn = (text: string) => eventsOf(text).filter(({ event }) => event !== undefined);
const stream = (path: string, lastId?: string) =>
  server.bench.send(`${path}/events`, { headers: lastId === undefined ? {} : { 'last-event-id': lastId } });

async function endlessJob(): Promise<string> {
  const prompt = `endless ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
  return server.startJob(prompt);
}

/** A stream over a connection of its own, so that it can be cut or not be read. */
function openStream(path: string, url = server.bench.http.url): { socket: Socket; text: () => string } {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  let text = '';
  socket.on('data', (data) => (text += data.toString()));
  socket.on('error', () => {});
  const head = [`GET ${path}/events HTTP/1.0`, 'host: x', `authorization: Bearer ${server.bench.own}`, '', ''];
  socket.write(head.join('\r\n'));
  return { socket, text: () => text.slice(text.indexOf('\r\n\r\n') + 4) };
}

const openStreams = async () => {
  const { body } = await server.bench.send('/metrics');
  return Number(/agent_jobs_http_open_streams (\d+)/.exec(body as string)?.[1]);
};

test('states come as they change, the present one first, then one result, and the stream ends', async () => {
  const { status, headers, body } = await stream(await server.startJob());
  expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  const events = eventsIn(body as string);
  const states = events.slice(0, -1);
  expect(states.map(({ event }) => event)).toEqual(states.map(() => 'state'));
  expect(new Set(states.map(({ id }) => id)).size).toBe(states.length);
  expect(states.at(-1)?.data).toMatchObject({ phase: 'done', outcome: 'completed' });
  expect(events.at(-1)).toMatchObject({ event: 'result', data: { result: { outcome: 'completed' }, failure: null } });
});

test('a caller that comes back gets what is new, from any server, and after the result nothing', async () => {
  const path = await server.startJob();
  const first = eventsIn((await stream(path)).body as string);
  const [state, result] = [first.at(-2)!, first.at(-1)!];
  const again = eventsIn((await stream(path, state.id)).body as string);
  expect(again.map(({ event, id }) => [event, id])).toEqual([['result', result.id]]);
  const other = await startHttp(server.jobs, server.projectId);
  const over = await other.send(`${path}/events`, { headers: { 'last-event-id': result.id! } });
  expect([over.status, over.body]).toEqual([204, '']);
  await other.close();
  for (const nonsense of ['', '.end', 'x'.repeat(5_000), '\u00ff\u00fe', "'; --", result.id!.replace('.end', '.END')]) {
    const events = eventsIn((await stream(path, nonsense)).body as string);
    expect(events.map(({ event }) => event)).toEqual(['state', 'result']);
  }
});

test('a caller that comes back to a job that no worker began before its end learns that there is no more', async () => {
  const { projectId, jobs } = server;
  const workflowId = `agent-job/${projectId}/unbegun`;
  const args = [{ projectId, prompt: 'x' }];
  const run = await jobs.client.workflow.start('agentJob', { workflowId, taskQueue: `none-${randomUUID()}`, args });
  await run.terminate();
  const path = `/v1/projects/${projectId}/jobs/unbegun`;
  const events = eventsIn((await stream(path)).body as string);
  expect(events).toMatchObject([{ event: 'result', data: { result: null, failure: { type: 'Terminated' } } }]);
  expect((await stream(path, events[0]!.id)).status).toBe(204);
});

test('a job whose follow-up came after its end goes on in the stream of a caller that saw the result', async () => {
  const path = await server.startJob();
  const seen = eventsIn((await stream(path)).body as string).at(-1)!;
  await server.bench.send(`${path}/follow-ups`, { body: { prompt: 'more', id: 'later' } });
  await vi.waitFor(async () => {
    const { body } = await server.bench.send(path);
    expect(body.state.followUps).toMatchObject([{ id: 'later', state: 'sent' }]);
  }, PATIENCE);
  const events = eventsIn((await stream(path, seen.id)).body as string);
  const result = { followUps: [{ id: 'later', state: 'sent' }] };
  expect(events.at(-1)).toMatchObject({ event: 'result', data: { result } });
});

test('a server that ends asks its streams and waits to come back, and lets what is under way finish', async () => {
  const other = await startHttp(server.jobs, server.projectId);
  const keyed = { key: other.own };
  const { url } = other.http;
  const path = await endlessJob();
  const streaming = other.send(`${path}/events`, keyed);
  const waiting = other.send(path, { ...keyed, headers: { prefer: 'wait=60' } });
  await vi.waitFor(async () => {
    expect((await other.send('/metrics')).body).toContain('agent_jobs_http_open_streams 1\n');
    expect((await other.send('/metrics')).body).toContain('agent_jobs_http_open_requests 3\n');
  }, PATIENCE);
  await other.close();
  const events = eventsOf((await streaming).body as string);
  expect(Number(events.at(-1)?.retry)).toBeGreaterThan(0);
  expect(events.some(({ event }) => event === 'result')).toBe(false);
  expect(await waiting).toMatchObject({ status: 200, body: { result: null, state: { outcome: null } } });
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

test('a reader that reads nothing holds back its own stream alone', async () => {
  const path = await endlessJob();
  const { socket } = openStream(path);
  socket.pause();
  await vi.waitFor(async () => expect(await openStreams()).toBe(1), PATIENCE);
  for (let i = 0; i < 20; i++) {
    await server.bench.send(`${path}/follow-ups`, { body: { prompt: 'x'.repeat(1_000), id: `${i}` } });
  }
  expect((await server.bench.send(path)).status).toBe(200);
  socket.destroy();
  await once(socket, 'close');
  await vi.waitFor(async () => expect(await openStreams()).toBe(0), PATIENCE);
});

test('many streams of one job ask Temporal no more than one does', async () => {
  const path = await endlessJob();
  const describe = vi.spyOn(server.jobs.client.workflowService, 'describeWorkflowExecution');
  try {
    const streams = Array.from({ length: 40 }, () => openStream(path));
    await vi.waitFor(() => expect(streams.every(({ text }) => eventsIn(text()).length > 0)).toBe(true), PATIENCE);
    expect(describe.mock.calls.length).toBeLessThan(40);
    for (const { socket } of streams) socket.destroy();
    await vi.waitFor(async () => expect(await openStreams()).toBe(0), PATIENCE);
  } finally {
    describe.mockRestore();
  }
});

test('a caller that goes away while it waits leaves no request behind', async () => {
  const path = await endlessJob();
  const gone = new AbortController();
  const headers = { prefer: 'wait=60' };
  const waits = Array.from({ length: 50 }, () => server.bench.send(path, { headers, signal: gone.signal }));
  const ended = Promise.allSettled(waits);
  const open = async () => {
    const { body } = await server.bench.send('/metrics');
    return Number(/agent_jobs_http_open_requests (\d+)/.exec(body as string)?.[1]);
  };
  await vi.waitFor(async () => expect(await open()).toBe(51), PATIENCE);
  gone.abort();
  await ended;
  await vi.waitFor(async () => expect(await open()).toBe(1), PATIENCE);
  expect(server.bench.problems).toEqual([]);
});

test('many streams that are cut leave no request, handle or memory behind', async () => {
  const path = await endlessJob();
  const cut = async (count: number) => {
    const streams = Array.from({ length: count }, () => openStream(path));
    await vi.waitFor(async () => expect(await openStreams()).toBe(count), { timeout: 120_000, interval: 500 });
    await vi.waitFor(() => expect(streams.every(({ text }) => eventsIn(text()).length > 0)).toBe(true), PATIENCE);
    for (const { socket } of streams) socket.resetAndDestroy();
    await vi.waitFor(async () => expect(await openStreams()).toBe(0), { timeout: 120_000, interval: 500 });
  };
  const handles = () => process.getActiveResourcesInfo().filter((name) => /Timeout|TCPSocketWrap/.test(name)).length;
  await cut(50);
  const before = handles();
  await cut(100);
  await vi.waitFor(() => expect(handles()).toBeLessThanOrEqual(before + 50), PATIENCE);
});

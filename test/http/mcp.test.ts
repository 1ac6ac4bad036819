/** The tools of an agent, as the protocol's requests over HTTP. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { readMcpConfig } from '../../src/config.js';
import { keyOf } from '../../src/http/mcp.js';
import { cliProgram } from '../cli/run-cli.js';
import { QUICK } from '../client/job-server.js';
import { headOf, peer, startHttpJobServer } from './http-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startHttpJobServer);

const ACCEPT = { accept: 'application/json, text/event-stream' };

/** Sends one request as clients of the revision before the newest do: the answer is a stream of one event. */
async function send(method: string, params: object, key?: string | null) {
  const body = { jsonrpc: '2.0', id: 1, method, params };
  const headers = { ...ACCEPT, 'mcp-protocol-version': '2025-06-18' };
  const answer = await server.bench.send('/mcp', { body, headers, ...(key !== undefined && { key }) });
  if (answer.status !== 200) return answer;
  const events = String(answer.body).matchAll(/^data: (.*)$/gm);
  return [...events].map(([, data]) => JSON.parse(data!)).at(-1);
}

async function call(name: string, args: object, key?: string) {
  const { result } = await send('tools/call', { name, arguments: { projectId: server.projectId, ...args } }, key);
  return result;
}

test('the tools are listed with the schemas of the contract, and none resolves a write in doubt', async () => {
  const { result } = await send('tools/list', {});
  const tools = Object.fromEntries(result.tools.map((tool: { name: string }) => [tool.name, tool]));
  expect(Object.keys(tools)).toEqual(['start_job', 'send_follow_up', 'get_job', 'wait_for_job', 'list_jobs']);
  expect(tools.start_job.inputSchema).toMatchObject({
    type: 'object',
    required: ['projectId', 'prompt'],
    properties: { deadline: {}, key: { type: 'string' } },
  });
  expect(tools.get_job).toMatchObject({
    annotations: { readOnlyHint: true },
    inputSchema: { required: ['projectId', 'key'] },
  });
});

test('an agent whose key may only read sees the reading tools, and no other answers', async () => {
  const { reader } = server.bench;
  const { result } = await send('tools/list', {}, reader);
  expect(result.tools.map(({ name }: { name: string }) => name)).toEqual(['get_job', 'wait_for_job', 'list_jobs']);
  for (const name of ['start_job', 'send_follow_up']) {
    const args = { projectId: server.projectId, prompt: 'by a reader', key: 'k' };
    expect(await send('tools/call', { name, arguments: args }, reader)).toMatchObject({ error: {} });
  }
  expect(await call('list_jobs', {}, reader)).toMatchObject({ structuredContent: { nextCursor: null } });
  expect(await server.sandbox.creates({ projectId: server.projectId })).toEqual([]);
});

test('an agent that repeats its start without a key makes no second job, and waits for the result', async () => {
  const prompt = `by an agent ${randomUUID()}`;
  const key = keyOf(server.projectId, prompt);
  expect(key).toMatch(/^mcp-[\da-f]{32}$/);
  const started = await call('start_job', { prompt, ...QUICK });
  expect(started.structuredContent).toMatchObject({ key, isNew: true });
  const again = await call('start_job', { prompt, ...QUICK });
  expect(again.structuredContent).toMatchObject({ key, isNew: false });
  const waited = await call('wait_for_job', { key, timeoutSeconds: 40 });
  expect(waited.structuredContent).toMatchObject({ key, state: { phase: 'done' }, result: { outcome: 'completed' } });
  expect(waited.structuredContent.next).toBe('The job is over: completed.');
  const { state, prLink, next } = waited.structuredContent;
  expect(prLink).toMatch(/^http/);
  const short = { key, phase: 'done', outcome: 'completed', prLink, waiting: null, next };
  expect(waited.content).toEqual([{ type: 'text', text: JSON.stringify(short) }]);
  expect(state.prLink).toBe(prLink);
  expect(await server.sandbox.creates({ projectId: server.projectId })).toHaveLength(1);
});

test('a wait that is over answers what there is; a follow-up is sent once under its id', async () => {
  const prompt = `endless ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
  const {
    structuredContent: { key },
  } = await call('start_job', { prompt, key: randomUUID(), ...QUICK });
  const running = await call('wait_for_job', { key, timeoutSeconds: 0 });
  expect(running.structuredContent.result).toBeNull();
  expect(running.structuredContent.next).toContain('still runs');
  const { phase, outcome, waiting } = JSON.parse(running.content[0].text);
  expect([phase, outcome, waiting]).toEqual([expect.any(String), null, running.structuredContent.state.waiting]);
  for (const _ of [1, 2]) {
    const sent = await call('send_follow_up', { key, prompt: 'more', id: 'one' });
    expect(sent.structuredContent).toMatchObject({ id: 'one', state: 'sent', job: { status: 'active' } });
    const { next } = sent.structuredContent;
    expect(JSON.parse(sent.content[0].text)).toEqual({ id: 'one', state: 'sent', next });
  }
  expect(await call('list_jobs', { limit: 201 })).toMatchObject({ isError: true, structuredContent: { status: 422 } });
  const listed = await call('list_jobs', { limit: 200 });
  const { jobs, nextCursor, next } = listed.structuredContent;
  expect(nextCursor).toBeNull();
  const shown = ['key', 'title', 'phase', 'outcome', 'prLink', 'waitingFor'];
  const rows = jobs.map((job: Record<string, unknown>) => Object.fromEntries(shown.map((name) => [name, job[name]])));
  expect(JSON.parse(listed.content[0].text)).toEqual({ jobs: rows, nextCursor: null, next });
  const other = await call('send_follow_up', { key, prompt: 'another', id: 'one' });
  expect(other).toMatchObject({ isError: true, structuredContent: { code: 'FOLLOW_UP_CONFLICT', status: 422 } });
});

async function inDoubt(promptIncludes: string) {
  await server.sandbox.addFault({ kind: 'status', status: 500, effect: 'before', promptIncludes, count: 1 });
}

const ASK = /waits for a person.*npx agent-jobs resolve.*Do not start the job again/;

test('a job in doubt says in each answer that a person must resolve it', async () => {
  const prompt = `in doubt ${randomUUID()}`;
  await inDoubt(prompt);
  const { structuredContent: started } = await call('start_job', { prompt, ...QUICK });
  const { key } = started;
  await expect.poll(async () => (await call('get_job', { key })).structuredContent.next).toMatch(ASK);
  const again = await call('start_job', { prompt, ...QUICK });
  expect(again.structuredContent).toMatchObject({ isNew: false, next: expect.stringMatching(ASK) });
  const waited = await call('wait_for_job', { key, timeoutSeconds: 0 });
  expect(waited.structuredContent.next).toMatch(ASK);
});

test('a job that ended in doubt, and a follow-up in doubt, are not to be repeated', async () => {
  const prompt = `in doubt ${randomUUID()}`;
  await inDoubt(prompt);
  const { structuredContent: started } = await call('start_job', { prompt, onUnknownOutcome: 'fail', ...QUICK });
  const ended = await call('wait_for_job', { key: started.key, timeoutSeconds: 40 });
  const { message } = ended.structuredContent.failure;
  expect(JSON.parse(ended.content[0].text)).toMatchObject({ outcome: 'UnknownOutcome', failure: message });
  expect(ended.structuredContent).toMatchObject({
    outcome: 'UnknownOutcome',
    result: null,
    failure: { type: 'UnknownOutcome' },
    next: expect.stringMatching(/Ask the person who operates agent-jobs.*Do not start the job again/),
  });
  const other = await call('start_job', { prompt: `well ${randomUUID()}`, ...QUICK });
  const { key } = other.structuredContent;
  await inDoubt(`more ${key}`);
  const sent = await call('send_follow_up', { key, prompt: `more ${key}`, id: 'one' });
  expect(sent.structuredContent).toMatchObject({
    state: 'unknown',
    next: expect.stringMatching(/npx agent-jobs attention.*Do not send it again/),
  });
});

test.each([
  { args: { prompt: 'x', deadlin: '1 hour' }, status: 422, detail: 'known are projectId' },
  { args: {}, status: 422, detail: 'prompt must be a string; it is missing' },
  { args: { prompt: 'x', projectId: 'another' }, status: 403, detail: 'not for this project' },
  { args: { prompt: 'x', key: '..' }, status: 422, detail: 'key' },
  { args: { prompt: { toString: 1 } }, status: 422, detail: 'prompt' },
  { args: { prompt: 'x', key: { toString: 1 } }, status: 422, detail: 'key' },
])('a start with $args is invalid, and its answer says why', async ({ args, status, detail }) => {
  const answer = await call('start_job', args);
  expect(answer).toMatchObject({
    isError: true,
    structuredContent: { status, detail: expect.stringContaining(detail) },
  });
  expect(answer.content[0].text).toContain(detail);
});

test('another project is not read, nor is a request without a key or with a wrong tool answered', async () => {
  const { result } = await send('tools/call', { name: 'get_job', arguments: { projectId: 'another', key: 'k' } });
  expect(result.structuredContent).toMatchObject({ status: 403 });
  expect(await send('tools/list', {}, null)).toMatchObject({ status: 401, body: { code: 'UNAUTHORIZED' } });
  expect(await send('tools/call', { name: 'resolve', arguments: {} })).toMatchObject({ error: {} });
  expect(server.bench.problems).toEqual([]);
});

test('a page of another site calls no tool', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
  const { host } = new URL(server.bench.http.url);
  const statusFrom = async (origin: string) =>
    (await server.bench.send('/mcp', { body, headers: { ...ACCEPT, origin } })).status;
  const origins = ['https://evil.example', 'null', 'not an origin', `http://${host}.evil.example`, `http://${host}`];
  expect(await Promise.all(origins.map(statusFrom))).toEqual([403, 403, 403, 403, 200]);
  // Behind a proxy, one of the two may name the port that is meant anyway.
  const sent = peer(
    server.bench,
    headOf(server.bench, 'POST /mcp', 'origin: https://x', 'content-length: 0').replace('host: x', 'host: x:443'),
  );
  expect(await sent.statuses(1)).toEqual([415]);
  sent.socket.destroy();
});

test('a call that is cancelled and a stream of notifications wait for nothing more', async () => {
  const openRequests = async () =>
    Number(/open_requests (\d+)/.exec(String((await server.bench.send('/metrics')).body))![1]) - 1;
  const { structuredContent: job } = await call('start_job', { prompt: 'wait', key: randomUUID(), deadline: '1 hour' });
  const waits = { name: 'wait_for_job', arguments: { projectId: server.projectId, key: job.key } };
  const own = 'io.modelcontextprotocol/';
  const _meta = { [`${own}protocolVersion`]: '2026-07-28', [`${own}clientCapabilities`]: {} };
  const listens = { _meta, notifications: { toolsListChanged: true } };
  for (const [method, params, version] of [
    ['tools/call', waits, '2025-06-18'],
    ['subscriptions/listen', listens, '2026-07-28'],
  ] as const) {
    const cancel = new AbortController();
    const body = { jsonrpc: '2.0', id: 1, method, params };
    const headers = { ...ACCEPT, 'mcp-protocol-version': version, 'mcp-method': method };
    const asked = server.bench.send('/mcp', { body, headers, signal: cancel.signal }).catch(() => null);
    await expect.poll(openRequests).toBe(1);
    cancel.abort();
    expect(await asked).toBeNull();
    await expect.poll(openRequests).toBe(0);
  }
});

test('while Temporal is away each tool says so, and the end of its input ends the program', async () => {
  const env = { PATH: process.env['PATH'], HOME: tmpdir(), TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const child = spawn(process.execPath, [cliProgram, 'mcp'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const ask = async (method: string, params: object) => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })}\n`);
    return JSON.parse(String((await lines.next()).value)).result;
  };
  const clientInfo = { name: 'test', version: '1' };
  const begun = await ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  expect(begun.serverInfo.name).toBe('agent-jobs');
  const args = { projectId: 'p', key: 'k' };
  expect(await ask('tools/call', { name: 'get_job', arguments: args })).toMatchObject({
    isError: true,
    structuredContent: { status: 503, code: 'TEMPORAL_UNAVAILABLE' },
  });
  child.stdin.end();
  expect(await closed).toEqual([0, null]);
});

test('the longest wait is a setting', () => {
  expect(readMcpConfig({})).toEqual({ maxWaitMs: undefined });
  expect(readMcpConfig({ MCP_MAX_WAIT: '5 minutes' })).toEqual({ maxWaitMs: 300_000 });
  for (const wrong of ['0', '2 hours', 'soon', '-1 s']) {
    expect(() => readMcpConfig({ MCP_MAX_WAIT: wrong })).toThrow(/MCP_MAX_WAIT +should be a duration/);
  }
});

/** Which pages of other sites may call the tools of agents, and what a browser learns of that; errors as JSON-RPC. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readHttpConfig } from '../../src/config.js';
import { CallerKeys } from '../../src/http/keys.js';
import { HttpServer } from '../../src/http/server.js';
import { useHttp } from './http-server.js';

const PAGE = 'https://app.example.com';
const ELECTRON = 'app://bundle';
const ACCEPT = { accept: 'application/json, text/event-stream' };

const used = useHttp({ requests: 20 });
let http: HttpServer;
beforeAll(async () => {
  const { bench, jobs } = used;
  const keys = new CallerKeys(bench.keysFile, () => {}, 0);
  const service = { connect: () => Promise.resolve(jobs), keys, version: '0', onProblem: () => {} };
  const allowedOrigins = [PAGE, ELECTRON];
  http = await HttpServer.listen(
    { ...service, allowedOrigins, limits: { requests: 20 } },
    { host: '127.0.0.1', port: 0 },
  );
});
afterAll(() => http.end());

const list = { jsonrpc: '2.0', id: 7, method: 'tools/list', params: {} };

async function ask(
  origin: string | null,
  { method = 'POST', key = used.bench.own, path = '/mcp', url = http.url } = {},
) {
  const headers = {
    ...ACCEPT,
    'content-type': 'application/json',
    authorization: `Bearer ${key}`,
    ...(origin !== null && { origin }),
  };
  const asked = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,mcp-name' };
  return fetch(url + path, {
    method,
    headers: method === 'OPTIONS' ? { origin: origin ?? '', ...asked } : headers,
    ...(method === 'POST' && { body: JSON.stringify(list) }),
  });
}

const allowed = ({ headers }: Response) => [headers.get('access-control-allow-origin'), headers.get('vary')];

test('a listed page is answered, and may read the answer and each error; no other is', async () => {
  for (const origin of [PAGE, ELECTRON]) {
    const answer = await ask(origin);
    expect([answer.status, ...allowed(answer)]).toEqual([200, origin, 'Origin']);
    expect(answer.headers.get('access-control-expose-headers')).toMatch(/retry-after/i);
    const refused = await ask(origin, { key: 'unknown' });
    expect([refused.status, ...allowed(refused)]).toEqual([401, origin, 'Origin']);
  }
  for (const origin of ['https://evil.example', 'null', `${PAGE}:8443`, `${PAGE}.evil.example`, PAGE.toUpperCase()]) {
    const answer = await ask(origin);
    expect([origin, answer.status, ...allowed(answer)]).toEqual([origin, 403, null, 'Origin']);
  }
  const bare = await ask(null);
  expect([bare.status, ...allowed(bare)]).toEqual([200, null, 'Origin']);
  // The tools alone are for pages.
  const jobs = await ask(PAGE, { method: 'GET', path: '/v1/projects/acme/jobs' });
  expect(allowed(jobs)).toEqual([null, null]);
});

test('a preflight needs no key, and is counted by address', async () => {
  const preflight = (origin: string, url?: string) => ask(origin, { method: 'OPTIONS', ...(url && { url }) });
  const answer = await preflight(PAGE);
  expect([answer.status, ...allowed(answer)]).toEqual([204, PAGE, 'Origin']);
  expect(answer.headers.get('access-control-allow-methods')).toBe('POST');
  expect(answer.headers.get('access-control-allow-headers')).toBe('authorization,mcp-name');
  const other = await preflight('https://evil.example');
  expect([other.status, ...allowed(other)]).toEqual([405, null, 'Origin']);
  const unset = await preflight(PAGE, used.bench.http.url);
  expect([unset.status, ...allowed(unset)]).toEqual([405, null, null]);
  const statuses = await Promise.all(Array.from({ length: 25 }, async () => (await preflight(PAGE)).status));
  expect([statuses.filter((status) => status === 204).length, new Set(statuses)]).toEqual([19, new Set([204, 429])]);
});

test('origins are whole, none stands for others, and keys must be there', () => {
  const read = (origins: string) =>
    readHttpConfig({ HTTP_KEYS_FILE: used.bench.keysFile, MCP_ALLOWED_ORIGINS: origins }).allowedOrigins;
  expect(read(`${PAGE}, ${ELECTRON} http://localhost:3000`)).toEqual([PAGE, ELECTRON, 'http://localhost:3000']);
  for (const wrong of [
    '*',
    'null',
    'https://*.example.com',
    `${PAGE}/`,
    'HTTPS://a.example',
    'https://a.example:443',
  ]) {
    expect(() => read(wrong), wrong).toThrow(/MCP_ALLOWED_ORIGINS +should be/);
  }
  expect(() => readHttpConfig({ MCP_ALLOWED_ORIGINS: PAGE })).toThrow(
    /HTTP_KEYS_FILE +is missing; MCP_ALLOWED_ORIGINS/,
  );
});

test('without keys no page of another site calls, with or without an origin', async () => {
  const service = { connect: () => Promise.resolve(used.jobs), keys: null, version: '0', onProblem: () => {} };
  const open = await HttpServer.listen(service, { host: '127.0.0.1', port: 0 });
  const status = async (headers: object) =>
    (await fetch(`${open.url}/mcp`, { method: 'POST', headers: { ...ACCEPT, ...headers } })).status;
  expect(await status({ 'sec-fetch-site': 'cross-site' })).toBe(403);
  expect(await status({ origin: PAGE })).toBe(403);
  await open.end();
});

test('a batch, what is no JSON, and a version against the header are errors of JSON-RPC', async () => {
  const { send } = used.bench;
  const rpc = async (body: unknown, headers: Record<string, string> = {}) => {
    const { status, body: answer, headers: told } = await send('/mcp', { body, headers: { ...ACCEPT, ...headers } });
    return [status, told.get('content-type'), answer] as const;
  };
  const error = (code: number, message: string, id: unknown = null) => [
    ...[400, 'application/json'],
    { jsonrpc: '2.0', id, error: { code, message: expect.stringContaining(message) } },
  ];
  for (const batch of [[list], [], [list, list]]) {
    expect(await rpc(batch)).toEqual(error(-32_600, 'must be one JSON object; it is an array'));
  }
  expect(await rpc('{"a"')).toEqual(error(-32_700, 'must be JSON'));
  const version = 'io.modelcontextprotocol/protocolVersion';
  for (const method of ['initialize', 'tools/list', 'notifications/initialized']) {
    const clientInfo = { name: 'test', version: '1' };
    const params = { _meta: { [version]: '2025-11-25' }, protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
    const told = await rpc({ jsonrpc: '2.0', id: 7, method, params }, { 'mcp-protocol-version': '2025-06-18' });
    expect(told).toEqual(error(-32_020, 'names 2025-06-18, and _meta 2025-11-25', 7));
  }
});

/** What no client of good will sends, byte by byte: each gets 4xx or a closed connection, and leaves nothing behind. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { agentJobWorkflowId } from '../../src/contract.js';
import { headOf, LIST, OWN, peer, statusesIn, useHttp } from './http-server.js';

const used = useHttp();

/**
 * Sends bytes over a connection of their own, and answers with all that comes until it closes. This end closes with the
 * first answer, or at once if the bytes are cut off.
 */
async function raw(text: string | Buffer, { isCut = false } = {}): Promise<string> {
  const socket = connect(Number(new URL(used.bench.http.url).port), '127.0.0.1');
  let answer = '';
  socket.on('data', (data) => {
    answer += data.toString('latin1');
    if (/HTTP\/1\.1 [2-5]/.test(answer) && !String(text).endsWith(LAST)) socket.end();
  });
  socket.on('error', () => {});
  socket.write(text);
  if (isCut) socket.end();
  await once(socket, 'close');
  return answer;
}

/** A whole request, after whose answer the server closes the connection. */
const LAST = 'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';

const head = (first: string, ...headers: string[]) => headOf(used.bench, first, ...headers);
const start = `POST ${LIST}`;
/** The head and the body of an answer that is an error. */
const PROBLEM = /^content-type: application\/problem\+json\r\n[^]*"code":[^]*\}\n$/im;
const JSON_TYPE = 'content-type: application/json';
const KEY = 'idempotency-key: k';

test('what is no HTTP, or HTTP in two senses, is declined and closes the connection', async () => {
  const body = '{"prompt":"x"}';
  const cases = [
    ...['\0\0\0\0', 'GARBAGE\r\n\r\n', 'GET\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', '\x16\x03\x01\x02\x00\x01\x00'],
    'GET / HTTP/1.1\r\n\r\n',
    head(start, JSON_TYPE, KEY, `content-length: ${body.length}`, 'transfer-encoding: chunked') + `0\r\n\r\n${body}`,
    head(start, JSON_TYPE, KEY, 'content-length: 3', 'content-length: 14') + body,
    head(start, JSON_TYPE, KEY, 'content-length: -1') + body,
    head(start, JSON_TYPE, KEY, 'content-length: 1e9') + body,
    head(start, JSON_TYPE, KEY, 'transfer-encoding: chunked') + 'zz\r\n',
    head(start, JSON_TYPE, KEY, 'transfer-encoding: xchunked') + body,
    head('GET /', 'x y: z'),
    head('GET /', ' folded: z'),
    head('GET /', 'a: b\0c'),
    head('GET /', `x: ${'y'.repeat(20_000)}`),
    head(`GET /${'y'.repeat(20_000)}`),
  ];
  for (const text of cases) {
    const answer = await raw(text);
    const [status = 0] = statusesIn(answer);
    expect([text.slice(0, 200), status >= 400 && status < 500]).toEqual([text.slice(0, 200), true]);
    expect(answer).toMatch(PROBLEM);
  }
  expect(await used.server.client.workflow.count(`WorkflowId = '${agentJobWorkflowId(OWN, 'k')}'`)).toEqual({
    count: 0,
    groups: [],
  });
});

test('paths that a proxy may read otherwise lead to no other project', async () => {
  const paths = [
    '/v1/projects/acme/../other/jobs',
    '/v1/projects/acme%2f..%2fother/jobs',
    '/v1/projects/acme/jobs/../../other/jobs',
    '//v1/projects/other/jobs',
    '/v1//projects/other/jobs',
    '/v1/projects/other;acme/jobs',
    '/v1/./projects/acme/jobs',
    '/v1/projects/acme%00/jobs',
    '/v1/projects/acme%252fjobs/jobs',
    '/v1/projects/%61cme%2fx/jobs',
    '/v1/projects/./jobs',
    '/v1/projects/../jobs',
    '/v1/projects/%2e%2e/jobs',
    '/v1/projects/acme/jobs/%2e%2e',
    '/v1/projects/acme/jobs/..',
    '/v1\\projects\\acme\\jobs',
    '/v1/projects/acme/jobs#',
    'http://x/v1/projects/acme/jobs',
    '*',
    '/v1/projects/acmé/jobs',
    '/v1/projects/acme/jobs/k%2Fcancel/..',
    '/v1/jobs/../projects/other/jobs',
    '/v1/projects/other/jobs?projectId=acme',
  ];
  for (const path of paths) {
    const [status = 0] = statusesIn(await raw(head(`GET ${path}`)));
    expect([path, [400, 403, 404].includes(status)]).toEqual([path, true]);
  }
});

test('a CONNECT closes its connection, and neither ends the server nor keeps it from its end', async () => {
  for (let i = 0; i < 30; i += 1) {
    const declined = peer(used.bench, head('CONNECT other:443'));
    await declined.closed;
    expect(declined.answer()).toBe('');
  }
  expect((await used.bench.send('/healthz')).status).toBe(200);
});

test('headers that come twice are declined, where two readers could take another one', async () => {
  const list = `GET ${LIST}`;
  const twice = [
    head(list, 'authorization: Bearer other'),
    head(list, 'host: y'),
    head(start, JSON_TYPE, KEY, 'idempotency-key: other', 'content-length: 2') + '{}',
    head(start, JSON_TYPE, 'content-type: text/plain', KEY, 'content-length: 2') + '{}',
    head(`GET ${LIST}/k/events`, 'last-event-id: a', 'last-event-id: b'),
  ];
  for (const text of twice) expect(statusesIn(await raw(text))[0]).toBe(400);
});

test('a body is declined before it is read where it is too large, and what is left of it is no request', async () => {
  const large = 3 * 1024 * 1024;
  const smuggled = head(`GET ${LIST}`);
  const padding = ' '.repeat(large - smuggled.length);
  const answer = await raw(head(start, JSON_TYPE, KEY, `content-length: ${large}`) + smuggled + padding + LAST);
  expect(statusesIn(answer)).toEqual([413, 200]);
  const chunk = `${large.toString(16)}\r\n${' '.repeat(large)}\r\n0\r\n\r\n`;
  expect(statusesIn(await raw(head(start, JSON_TYPE, KEY, 'transfer-encoding: chunked') + chunk))[0]).toBe(413);
  const asked = await raw(head(start, JSON_TYPE, KEY, `content-length: ${large}`, 'expect: 100-continue'));
  expect(statusesIn(asked)[0]).toBe(413);
  const expecting = await raw(head(start, JSON_TYPE, KEY, 'content-length: 0', 'expect: the-impossible'));
  expect([statusesIn(expecting), expecting]).toEqual([[417], expect.stringMatching(PROBLEM)]);
  const cut = await raw(head(start, JSON_TYPE, KEY, 'content-length: 100') + '{"prompt": "x"}', { isCut: true });
  expect(statusesIn(cut).filter((status) => status < 400 || status >= 500)).toEqual([]);
});

test('bodies that are no job are 4xx, however deep, odd or long their texts are', async () => {
  const deep = (open: string, close: string) => open.repeat(50_000) + close.repeat(50_000);
  const bodies = [
    '',
    ' ',
    '{',
    '{}',
    '[]',
    '1',
    '"x"',
    'nul',
    '{"a":1}{"b":2}',
    '\ufeff{}',
    '{"prompt": "\\ud800"}',
    '{"prompt": 1e999}',
    ...[deep('[', ']'), deep('{"a":', '1').slice(0, -50_000), `{"prompt":"x","polling":${deep('{"min":', '}')}}`],
    '{"prompt":"x","tags":{"length":1e9}}',
    '{"prompt":"x","metadata":{"__proto__":1}}',
    '{"prompt":{"toString":1}}',
    ...['{"prompt":"x","deadline":-1}', '{"prompt":"x","priority":1.5}', `{"prompt":"x","batch":"${'y'.repeat(1e5)}"}`],
  ];
  for (const body of [...bodies, Buffer.from([0x7b, 0xff, 0x7d])]) {
    const bytes = Buffer.from(body as string);
    const text = Buffer.concat([Buffer.from(head(start, JSON_TYPE, KEY, `content-length: ${bytes.length}`)), bytes]);
    const [status = 0] = statusesIn(await raw(text));
    expect([String(body).slice(0, 50), [400, 415, 422].includes(status)]).toEqual([String(body).slice(0, 50), true]);
  }
});

test('requests of random bytes are 4xx or closed, hundreds of them, and the server answers on', async () => {
  // A generator of its own, so that a failure can be repeated.
  let seed = 42;
  const random = (most: number) => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % most;
  const valid = head(start, JSON_TYPE, KEY, 'content-length: 2') + '{}';
  for (let round = 0; round < 300; round++) {
    const bytes = Buffer.from(valid);
    for (let changes = 1 + random(8); changes > 0; changes--) bytes[random(bytes.length)] = random(256);
    const answer = await raw(bytes.subarray(0, 1 + random(bytes.length)), { isCut: true });
    const statuses = statusesIn(answer);
    expect([round, statuses.filter((status) => status < 400 || status >= 500)]).toEqual([round, []]);
  }
  expect(used.bench.problems).toEqual([]);
  expect((await used.bench.send(LIST)).status).toBe(200);
  const { body } = await used.bench.send('/metrics');
  expect(body).toContain('agent_jobs_http_open_streams 0');
});

test('headers or a body that come too slowly are answered 408', async () => {
  const slow = async (text: string) => {
    const socket = connect(Number(new URL(used.bench.http.url).port), '127.0.0.1');
    let answer = '';
    socket.on('data', (data) => (answer += data.toString()));
    socket.on('error', () => {});
    socket.write(text);
    const drip = setInterval(() => socket.write('x'), 1_000);
    await once(socket, 'close');
    clearInterval(drip);
    return statusesIn(answer);
  };
  const headers = Array.from({ length: 20 }, () => slow('GET / HTTP/1.1\r\nhost: x\r\nx: '));
  const bodies = Array.from({ length: 20 }, () => slow(head(start, JSON_TYPE, KEY, 'content-length: 1000') + '{'));
  expect(new Set((await Promise.all([...headers, ...bodies])).flat())).toEqual(new Set([408]));
});

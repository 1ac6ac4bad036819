/** Who may see what, by which address; what names nothing, or another project, is declined before anything is asked. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { expect, test, vi } from 'vitest';
import { readHttpConfig } from '../../src/config.js';
import { agentJobWorkflowId, attachedJobWorkflowId, PHASES } from '../../src/contract.js';
import { HttpServer } from '../../src/http/server.js';
import { byId, hashOf, LIST, OWN, useHttp } from './http-server.js';

const used = useHttp();
const send: (typeof used)['bench']['send'] = (path, options) => used.bench.send(path, options);

const withoutKeys = (host = '127.0.0.1') =>
  HttpServer.listen(
    { connect: () => Promise.resolve(used.jobs), keys: null, version: '0', onProblem: () => {} },
    { host, port: 0 },
  );

test('without a key, or with an unknown one, each call is 401, and none of the open paths', async () => {
  for (const key of [null, 'nobody', `${used.bench.own}x`, hashOf(used.bench.own)]) {
    const { status, body, headers } = await send(LIST, { key });
    expect([status, body.code, headers.get('www-authenticate')]).toEqual([401, 'UNAUTHORIZED', 'Bearer']);
  }
  const basic = await send(LIST, { key: null, headers: { authorization: 'Basic abc' } });
  expect(basic.status).toBe(401);
  for (const path of ['/healthz', '/readyz', '/openapi.json', '/metrics']) {
    expect((await send(path, { key: null })).status).toBe(200);
  }
});

test("another project's job is 403 by every address, whether or not it is there", async () => {
  const others = ['other', 'acme2', 'ACME', 'acme/', 'acme%', 'acme/jobs'];
  for (const project of others) {
    const workflowId = agentJobWorkflowId(project, 'k');
    const paths = [
      `/v1/projects/${encodeURIComponent(project)}/jobs`,
      ...['', '/events'].flatMap((rest) => [
        `/v1/projects/${encodeURIComponent(project)}/jobs/k${rest}`,
        `${byId(workflowId)}${rest}`,
      ]),
    ];
    for (const path of paths) expect([path, (await send(path)).status]).toEqual([path, 403]);
    for (const call of ['follow-ups', 'cancel', 'poll-now', 'resolve']) {
      const { status } = await send(`${byId(workflowId)}/${call}`, { body: {} });
      expect(status).toBe(403);
    }
  }
  const attached = await send(byId(attachedJobWorkflowId('other', 'j')));
  expect(attached.status).toBe(403);
});

test('a key that may only read is refused each write by every address, and its answers say so', async () => {
  const key = used.bench.reader;
  const allow = 'GET, HEAD';
  for (const path of [LIST, ...['follow-ups', 'cancel', 'poll-now', 'resolve'].map((call) => `${LIST}/k/${call}`)]) {
    for (const address of [path, path.replace(`${LIST}/k`, byId(agentJobWorkflowId(OWN, 'k')))]) {
      const { status, body, headers } = await send(address, { key, body: { prompt: 'x' } });
      expect([address, status, body.code, headers.get('allow')]).toEqual([address, 403, 'READ_ONLY_KEY', allow]);
    }
  }
  const list = await send(LIST, { key });
  expect([list.status, list.headers.get('allow')]).toEqual([200, allow]);
  expect((await send(LIST)).headers.get('allow')).toBeNull();
  expect((await send(`${LIST}/k`, { key })).body.code).toBe('JOB_NOT_FOUND');
  // What it may see is judged first.
  const other = await send('/v1/projects/other/jobs/k/cancel', { key, method: 'POST' });
  expect([other.status, other.body.code]).toEqual([403, 'FORBIDDEN']);
});

test('an id of a making of its own is for keys that see all, and only if it is a job', async () => {
  const workflowId = `echo-${randomUUID()}`;
  await used.server.client.workflow.start('requestQueue', { workflowId, taskQueue: used.server.taskQueue });
  const path = `${byId(workflowId)}/cancel`;
  expect((await send(path, { method: 'POST' })).status).toBe(403);
  const asOperator = await send(path, { method: 'POST', key: used.bench.operator });
  expect([asOperator.status, asOperator.body.code]).toEqual([404, 'JOB_NOT_FOUND']);
  const { status } = await used.server.client.workflow.getHandle(workflowId).describe();
  expect(status.name).toBe('RUNNING');
  await used.server.client.workflow.getHandle(workflowId).terminate();
});

test('a path that names nothing is 400 or 404', async () => {
  const named = (key: string) => `/v1/projects/${OWN}/jobs/${key}`;
  const wrong = [
    ...['%', '%zz', '%ff', '%c0%ae', 'a%00', 'a%0a', 'a%7f', '%C2%85', ''].map(named),
    ...['%00', '%ff', '', 'x'.repeat(201)].map((project) => `/v1/projects/${project}/jobs`),
    ...['', '=', 'a', 'YQ==', 'YR', '_w'].map((id) => `/v1/jobs/${id}`),
    ...['agent-job/acme/.', 'agent-job/acme/..', 'agent-job/a%0A/k', 'a\nb'].map(byId),
    `${byId('agent-job/acme/k')}=`,
  ];
  for (const path of wrong) {
    const { status, body } = await send(path, { key: used.bench.operator });
    expect([path, status]).toEqual([path, 400]);
    expect(body).toMatchObject({ type: 'about:blank', title: 'Bad Request', status: 400, code: 'BAD_REQUEST' });
  }
  for (const path of ['/v1', '/v1/projects', `/v1/projects/${OWN}`, named('a/b'), `${named('a')}/nothing`, '/V1/x']) {
    expect([path, (await send(path)).status]).toEqual([path, 404]);
  }
  for (const path of [named('of-nobody'), byId(agentJobWorkflowId(OWN, 'of-nobody'))]) {
    for (const rest of ['', '/events']) {
      const { status, body } = await send(path + rest);
      expect([status, body.code]).toEqual([404, 'JOB_NOT_FOUND']);
    }
  }
});

test('a wrong method is 405 with Allow, and HEAD is as GET', async () => {
  const list = LIST;
  const wrong = [
    ['PUT', list, 'POST, GET, HEAD'],
    ['OPTIONS', list, 'POST, GET, HEAD'],
    ['DELETE', `${list}/k`, 'GET, HEAD'],
    ['GET', `${list}/k/cancel`, 'POST'],
    ['POST', '/healthz', 'GET, HEAD'],
  ] as const;
  for (const [method, path, allow] of wrong) {
    const { status, headers } = await send(path, { method });
    expect([path, status, headers.get('allow')]).toEqual([path, 405, allow]);
  }
  const head = await send(list, { method: 'HEAD' });
  expect([head.status, head.body]).toEqual([200, '']);
});

test('what is wrong with a start is named by its field, and nothing of the prompt', async () => {
  const start = (body: unknown, headers: Record<string, string> = { 'idempotency-key': 'k' }) =>
    send(LIST, { body, headers });
  expect((await start({ prompt: 'x' }, {})).status).toBe(400);
  const wrong: [unknown, string][] = [
    [{}, 'prompt or jobId'],
    [{ prompt: '' }, 'prompt must be'],
    [{ prompt: 'x', projectId: 'other' }, 'projectId is no field'],
    [{ prompt: 'x', promt: 'y' }, 'known are prompt'],
    [{ prompt: 'x', deadline: 'soon' }, 'deadline must be'],
    [{ prompt: 'x', polling: { mim: 1 } }, 'polling.mim'],
    [[], 'body must be one JSON object'],
    ['null', 'body must be one JSON object'],
    [`{"__proto__": {}, "prompt": "x"}`, '__proto__ is no field'],
  ];
  for (const [body, words] of wrong) {
    const answer = await start(body);
    expect([answer.status, answer.body.code]).toEqual([422, 'INVALID_INPUT']);
    expect(answer.body.detail).toContain(words);
    expect(answer.body.detail).not.toContain('allowUnknown');
  }
  for (const key of ['.', '..', '', 'x'.repeat(300)]) {
    expect((await start({ prompt: 'x' }, { 'idempotency-key': key })).status).toBe(422);
  }
  const broken = await start('{"prompt": "a secret');
  expect([broken.status, JSON.stringify(broken.body)]).toEqual([400, expect.not.stringContaining('secret')]);
  const typeOf = (type: string) => start('{}', { 'idempotency-key': 'k', 'content-type': type });
  for (const type of ['text/plain', 'application/json; charset=latin1', 'application/x-www-form-urlencoded']) {
    expect((await typeOf(type)).status).toBe(415);
  }
  for (const charset of ['utf-8', 'utf8', '"UTF-8"']) {
    expect((await typeOf(`application/json; charset=${charset}`)).status).toBe(422);
  }
  expect((await start(JSON.stringify({ prompt: 'x'.repeat(2 * 1024 * 1024) }))).status).toBe(413);
});

test('a query of another kind is invalid', async () => {
  const list = (query: string) => send(`/v1/projects/${OWN}/jobs?${query}`);
  const wrong = [
    'phase=x',
    'outcome=',
    'limit=0',
    'limit=1e3',
    'limit=201',
    'fase=done',
    'phase=done&phase=done',
    'tag=',
    'endedAfter=yesterday',
  ];
  const cursors = ['cursor=x', 'cursor=a.b', 'cursor=bWFkZSB1cA'];
  for (const query of [...wrong, ...cursors, `batch=${'x'.repeat(101)}`, 'status=a%00']) {
    const { status, body } = await list(query);
    expect([query, status, body.code]).toEqual([query, 422, 'INVALID_INPUT']);
  }
  const quotes = await list(`status=${encodeURIComponent(`' OR "x" = \\`)}&tag=${encodeURIComponent(`'"`)}`);
  expect([quotes.status, quotes.body]).toEqual([200, { jobs: [], nextCursor: null }]);
});

test('a key is taken and withdrawn as the file changes; while that is wrong, its last good content holds', async () => {
  const good = await readFile(used.bench.keysFile, 'utf8');
  const statusFor = async (key: string) => (await send(LIST, { key })).status;
  const odd = JSON.stringify({ [hashOf('x')]: { name: 'x', projects: [OWN], access: 'some' } });
  for (const content of [
    '{',
    '[]',
    '{"x": {}}',
    odd,
    JSON.stringify({ 'a-secret-key': { name: 'x', projects: [OWN] } }),
  ]) {
    await writeFile(used.bench.keysFile, content);
    expect(await statusFor(used.bench.own)).toBe(200);
  }
  await rm(used.bench.keysFile);
  expect(await statusFor(used.bench.own)).toBe(200);
  await vi.waitFor(() => expect(used.bench.problems.length).toBeGreaterThanOrEqual(2));
  expect(used.bench.problems.join()).toMatch(/HTTP_KEYS_FILE .* should be .* its last good content holds/);
  expect(used.bench.problems.join()).not.toContain('a-secret-key');
  const added = randomUUID();
  await writeFile(
    used.bench.keysFile,
    JSON.stringify({ [hashOf(added).toUpperCase()]: { name: 'added', projects: '*' } }),
  );
  expect([await statusFor(added), await statusFor(used.bench.own)]).toEqual([200, 401]);
  await writeFile(used.bench.keysFile, good);
  expect(await statusFor(used.bench.own)).toBe(200);
});

/** `fetch` takes no host of the caller's choice. */
async function statusOfHost(url: string, host: string, headers = {}): Promise<number | undefined> {
  const sent = get(`${url}/v1/projects/any/jobs`, { headers: { ...headers, host } });
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

test('without keys a server is for this machine, and for no page of another site', async () => {
  const http = await withoutKeys();
  const statusWith = async (headers: Record<string, string>) =>
    (await fetch(`${http.url}/v1/projects/any/jobs`, { headers })).status;
  expect(await statusWith({})).toBe(200);
  for (const origin of ['https://evil.example', 'null', 'http://localhost:3000', http.url.replace('http', 'https')]) {
    expect(await statusWith({ origin })).toBe(403);
  }
  expect(await statusOfHost(http.url, 'localhost')).toBe(200);
  for (const host of ['evil.example', 'evil']) expect(await statusOfHost(http.url, host)).toBe(403);
  // Its own page may read, and write with a header that no form sends.
  const cancel = (headers: Record<string, string>) =>
    fetch(`${http.url}${LIST}/of-nobody/cancel`, { method: 'POST', headers: { origin: http.url, ...headers } });
  expect([await statusWith({ origin: http.url }), (await cancel({})).status]).toEqual([200, 403]);
  expect((await cancel({ 'content-type': 'text/plain' })).status).toBe(403);
  expect((await cancel({ 'content-type': 'application/json' })).status).toBe(404);
  const evil = { origin: 'http://evil.example', host: 'evil.example', 'content-type': 'application/json' };
  expect(await statusOfHost(http.url, 'evil.example', evil)).toBe(403);
  await http.end();
});

test('the page answers any navigation, without a key, and may do little in a browser', async () => {
  const files = { '/': 'text/html', '/page.js': 'text/javascript', '/page.css': 'text/css' };
  for (const [path, type] of Object.entries(files)) {
    const { status, headers } = await send(path, { key: null, headers: { 'sec-fetch-site': 'cross-site' } });
    expect([path, status, headers.get('content-type')]).toEqual([path, 200, `${type}; charset=utf-8`]);
    expect([headers.get('cache-control'), headers.get('x-frame-options')]).toEqual(['no-store', 'DENY']);
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; .*frame-ancestors 'none'/);
    expect(headers.get('content-security-policy')).not.toMatch(/unsafe|http/);
  }
  const { body: html } = await send('/', { key: null });
  // Behind a prefix, it finds its files and calls below the prefix.
  expect(html.match(/(?:src|href)="[^"]*"/g)).toEqual([
    ...['href="data:,"', 'href="page.css"', 'src="page.js"', 'href="#"'],
  ]);
  expect((await send('/', { key: null, method: 'POST' })).status).toBe(405);
  const { body: script } = await send('/page.js', { key: null });
  expect(script).toContain('"needsKey":true');
  for (const phase of PHASES) expect(script).toContain(`"${phase}":"`);
});

test('HTTP_PAGE takes the page away, and probes have none', async () => {
  expect(readHttpConfig({ HTTP_PAGE: 'off' }).hasPage).toBe(false);
  expect(() => readHttpConfig({ HTTP_PAGE: 'no' })).toThrow(/HTTP_PAGE +should be/);
  const service = { connect: () => Promise.resolve(used.jobs), keys: null, version: '0', onProblem: () => {} };
  const bare = await HttpServer.listen({ ...service, hasPage: false }, { host: '127.0.0.1', port: 0 });
  const http = await withoutKeys();
  const probes = await http.listenForProbes({ host: '127.0.0.1', port: 0 });
  const statuses = [bare.url, probes, http.url].map(async (url) => (await fetch(`${url}/`)).status);
  expect(await Promise.all(statuses)).toEqual([404, 404, 200]);
  await Promise.all([bare.end(), http.end()]);
});

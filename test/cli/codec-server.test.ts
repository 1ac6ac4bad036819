import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { createCodecServer, readToken } from '../../src/cli/codec-http.js';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { runCli } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const UI = 'https://temporal.example.com';
const TOKEN = randomBytes(32).toString('base64');
const WORD = `zeugma${randomBytes(6).toString('hex')}`;

let folder: string;
let server: Server;
let url: string;
let problems: string[];
const keys = { one: randomBytes(32).toString('base64'), two: randomBytes(32).toString('base64') };
const fileOf = (name: string) => join(folder, name);
const writeKeys = (name: string, current: string, given: object = keys) =>
  writeFile(fileOf(name), JSON.stringify({ current, keys: given }));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-codec-server-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(async () => {
  problems = [];
  await writeKeys('keys.json', 'one');
  await writeFile(fileOf('token'), `${TOKEN}\n`);
  server = createCodecServer({
    codec: openPayloadCodec(fileOf('keys.json')),
    namespace: 'jobs',
    origins: [UI],
    token: () => readToken(fileOf('token')),
    onProblem: (problem) => problems.push(problem),
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
});

const GOOD = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', 'x-namespace': 'jobs' };

interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

async function send(path: string, init: RequestInit & { duplex?: 'half' } = {}): Promise<Answer> {
  const response = await fetch(url + path, { method: 'POST', redirect: 'manual', ...init });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** The JSON of a payload, as a Temporal server gives it to the web UI. */
function jsonOf(value: unknown): { metadata: Record<string, string>; data: string } {
  const { metadata, data } = defaultPayloadConverter.toPayload(value)!;
  const entries = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]);
  return { metadata: Object.fromEntries(entries) as Record<string, string>, data: base64(data ?? '') };
}
const base64 = (bytes: Uint8Array | string) => Buffer.from(bytes).toString('base64');
const bodyOf = (...payloads: unknown[]) => JSON.stringify({ payloads });

async function call(name: 'encode' | 'decode', body: string, headers: Record<string, string> = GOOD) {
  const { status, text } = await send(`/${name}`, { body, headers });
  return { status, ...(JSON.parse(text) as { payloads: ReturnType<typeof jsonOf>[]; error: string }) };
}

test('what is encoded is decoded again, at whatever depth of the path, and what was never encoded stays', async () => {
  const payloads = [jsonOf(WORD), jsonOf(null), jsonOf({ a: 'ü'.repeat(50_000) })];
  const encoded = await call('encode', bodyOf(...payloads));
  expect(encoded.payloads.map(({ metadata }) => atob(metadata['encryption-key-id']!))).toEqual(['one', 'one', 'one']);
  expect(JSON.stringify(encoded)).not.toContain(WORD);
  expect(Buffer.from(encoded.payloads[0]!.data, 'base64').includes(WORD)).toBe(false);
  const mixed = bodyOf(...encoded.payloads, jsonOf('plain'), { ...jsonOf('x'), externalPayloads: [] });
  const { status, text } = await send('/a/b%20c/decode?x=1', { body: mixed, headers: GOOD });
  expect([status, JSON.parse(text)]).toEqual([200, { payloads: [...payloads, jsonOf('plain'), jsonOf('x')] }]);
  expect(await call('decode', bodyOf())).toEqual({ status: 200, payloads: [] });
});

test('the keys are replaced while it runs, and a broken file of keys changes nothing', async () => {
  const { payloads: old } = await call('encode', bodyOf(jsonOf('old')));
  await writeFile(fileOf('keys.json'), '{"current');
  expect((await call('decode', bodyOf(...old))).payloads).toEqual([jsonOf('old')]);
  const three = { three: randomBytes(32).toString('base64') };
  await writeKeys('ahead.json', 'three', three);
  const [payload] = await openPayloadCodec(fileOf('ahead.json')).encode([defaultPayloadConverter.toPayload('new')!]);
  const { metadata, data } = payload!;
  const ahead = {
    metadata: Object.fromEntries(Object.entries(metadata!).map(([name, bytes]) => [name, base64(bytes)])),
    data: base64(data!),
  };
  expect(await call('decode', bodyOf(ahead))).toEqual({
    status: 400,
    error: `the payload keys file ${fileOf('keys.json')} has no key "three": add it`,
  });
  await writeKeys('keys.json', 'three', { ...keys, ...three });
  expect((await call('decode', bodyOf(ahead, ...old))).payloads).toEqual([jsonOf('new'), jsonOf('old')]);
});

test('a request without the token is refused, whatever else it has', async () => {
  const body = bodyOf(jsonOf('x'));
  const { authorization: _, ...others } = GOOD;
  const wrong = ['', 'Bearer', 'Bearer ', `Basic ${TOKEN}`, `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(1)}`, TOKEN];
  for (const authorization of [...wrong, `Bearer ${TOKEN} ${TOKEN}`]) {
    const answer = await send('/decode', { body, headers: { ...others, authorization } });
    expect([authorization, answer.status, answer.headers.get('www-authenticate')]).toEqual([
      authorization,
      401,
      'Bearer',
    ]);
    expect(answer.text).toMatch(/^{"error":"not signed in: send/);
  }
  expect((await send('/decode', { body, headers: { ...GOOD, authorization: `bearer   ${TOKEN}` } })).status).toBe(200);
  await writeFile(fileOf('token'), randomBytes(32).toString('hex'));
  expect((await send('/decode', { body, headers: GOOD })).status).toBe(401);
});

test('without a usable token nobody is let in, and the log says why', async () => {
  for (const [text, problem] of [
    [null, 'cannot be read (ENOENT)'],
    ['', 'should hold one line of at least 32 visible ASCII characters: openssl rand -base64 32'],
    ['short', 'should hold one line'],
    [`${TOKEN}\n${TOKEN}`, 'should hold one line'],
  ] as const) {
    problems = [];
    await (text === null ? rm(fileOf('token')) : writeFile(fileOf('token'), text));
    for (const authorization of [`Bearer ${TOKEN}`, 'Bearer ', 'Bearer undefined']) {
      const { status, error } = await call('decode', bodyOf(), { ...GOOD, authorization });
      expect([status, error]).toEqual([503, 'the codec server has no token: see its log']);
    }
    expect(problems[0]).toContain(`the token file ${fileOf('token')} ${problem}`);
  }
});

/** Signs in as a browser does; answers with the cookie that it would send. */
async function signIn(token: string): Promise<Answer & { cookie: string }> {
  const answer = await send('/', { body: new URLSearchParams({ token }) });
  return { ...answer, cookie: answer.headers.get('set-cookie')?.split(';', 1)[0] ?? '' };
}

test('a browser that signed in is let in from pages of the web UI alone, until the token is another', async () => {
  expect((await send('/', { method: 'GET' })).text).toContain('type="password"');
  expect(await signIn('wrong')).toMatchObject({ status: 401, cookie: '' });
  const { status, cookie, headers, text } = await signIn(TOKEN);
  expect([status, text.includes(TOKEN), cookie.includes(TOKEN)]).toEqual([200, false, false]);
  expect(headers.get('set-cookie')).toMatch(/; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure$/);
  const { authorization: _, ...others } = GOOD;
  const decode = async (more: Record<string, string>) =>
    (await send('/decode', { body: bodyOf(), headers: { ...others, ...more } })).status;
  expect(await decode({ cookie: `a=b; ${cookie}; c=d`, origin: UI })).toBe(200);
  expect(await decode({ cookie })).toBe(401);
  expect(await decode({ cookie, origin: 'https://evil.example' })).toBe(403);
  const [name, ends, signature] = /^([\w-]+)=(\d+)\.(.+)$/.exec(cookie)!.slice(1) as [string, string, string];
  const later = String(Number(ends) + 1);
  for (const forged of [`${later}.${signature}`, `${ends}.`, `${ends}`, '', '.', `9e9.${signature}`])
    expect([forged, await decode({ cookie: `${name}=${forged}`, origin: UI })]).toEqual([forged, 401]);
  await writeFile(fileOf('token'), randomBytes(32).toString('hex'));
  expect(await decode({ cookie, origin: UI })).toBe(401);
});

test('a browser asks before, and is told that the web UI may, and no other page', async () => {
  const ask = (origin: string) => send('/decode', { method: 'OPTIONS', headers: { origin } });
  const { status, headers } = await ask(UI);
  expect(status).toBe(204);
  expect(Object.fromEntries(headers)).toMatchObject({
    'access-control-allow-origin': UI,
    'access-control-allow-credentials': 'true',
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers': 'authorization, content-type, x-namespace',
    vary: 'origin',
  });
  for (const origin of ['null', 'http://temporal.example.com', `${UI}.evil.example`, `${UI}:8080`]) {
    const refused = await ask(origin);
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([403, null]);
  }
  // The web UI can read what was wrong.
  const { headers: ofError } = await send('/decode', { body: '', headers: { origin: UI } });
  expect(ofError.get('access-control-allow-origin')).toBe(UI);
});

test('another namespace, method, path or type is refused with what was wrong', async () => {
  const { 'x-namespace': _, ...nameless } = GOOD;
  const another = 'the header X-Namespace names another one: this codec server is for namespace "jobs"';
  const missing = 'the header X-Namespace is missing: this codec server is for namespace "jobs"';
  for (const [path, init, status, error] of [
    ['/decode', { headers: nameless }, 400, missing],
    ['/decode', { headers: { ...GOOD, 'x-namespace': 'others' } }, 403, another],
    ['/decode', { headers: { ...GOOD, 'x-namespace': '' } }, 403, another],
    ['/decode', { headers: { ...GOOD, 'x-namespace': 'jobs, jobs' } }, 403, another],
    ['/decode', { headers: { ...GOOD, 'content-type': 'text/plain' } }, 415, /application\/json$/],
    ['/decode', { headers: GOOD, method: 'GET' }, 405, '/decode takes POST'],
    ['/encode/x', { headers: GOOD }, 404, /^there are/],
    ['/download', { headers: GOOD }, 404, /^there are/],
    ['/', { method: 'DELETE' }, 405, '/ takes GET and POST'],
    ['/', { body: '{}', headers: GOOD }, 415, /form-urlencoded$/],
  ] as const) {
    const answer = await send(path, { body: 'method' in init || path === '/' ? null : bodyOf(), ...init });
    const told = (JSON.parse(answer.text) as { error: string }).error;
    expect([path, answer.status, told]).toEqual([path, status, error instanceof RegExp ? told : error]);
    expect(told).toMatch(error);
  }
});

test('a body that is no list of payloads is refused with the place, and nothing of it is told', async () => {
  const secret = 'a-secret-of-somebody';
  for (const [body, error] of [
    [`{"payloads": ["${secret}`, 'the body is not valid JSON'],
    ['', 'the body is not valid JSON'],
    [`["${secret}"]`, 'the body is no JSON object'],
    [`{"payload": "${secret}"}`, 'the body has no field payloads: a list'],
    [bodyOf(jsonOf('x'), secret), 'payloads[1] is no JSON object'],
    [bodyOf({ metadata: [secret] }), 'payloads[0].metadata is no JSON object'],
    [bodyOf({ metadata: { encoding: 7 } }), 'a value of payloads[0].metadata is no base64'],
    [bodyOf({ data: `${secret}?` }), 'payloads[0].data is no base64'],
    [bodyOf({ data: '', external: [secret] }), 'payloads[0] has more than metadata and data'],
    [bodyOf(...Array<object>(10_001).fill({})), 'the body has more than 10000 payloads'],
  ] as const) {
    expect(await call('decode', body)).toEqual({ status: 400, error });
  }
  expect(await call('encode', '{"payloads": [{"metadata": {"__proto__": "YQ=="}}, {"metadata": null}]}')).toMatchObject(
    { status: 200 },
  );
});

test('a ciphertext that was cut or changed, or names another key, is refused, and the others with it', async () => {
  const { payloads } = await call('encode', bodyOf(jsonOf(WORD)));
  const { metadata, data } = payloads[0]!;
  const bytes = Buffer.from(data, 'base64');
  const changed = Buffer.from(bytes).fill(bytes[20]! ^ 1, 20, 21);
  const wrong = [...[0, 4, 12, 27, 28, bytes.length - 1].map((length) => bytes.subarray(0, length)), changed];
  for (const text of wrong) {
    const { status, error } = await call('decode', bodyOf(payloads[0], { metadata, data: base64(text) }));
    expect([status, error]).toEqual([400, expect.stringMatching(/^a payload was not encrypted with the key "one"/)]);
  }
  for (const id of ['two', 'none', '', '__proto__', 'k'.repeat(5_000), '\u0000<b>']) {
    const other = { ...metadata, 'encryption-key-id': base64(id) };
    const { status, error } = await call('decode', bodyOf({ metadata: other, data }));
    expect([id, status, error.length < 400, error.includes(WORD)]).toEqual([id, 400, true, false]);
  }
});

test('a body that is too large is refused, and without a token before it is read', async () => {
  const large = Buffer.alloc(17 * 1024 * 1024, ' ');
  const told = { error: 'the body has more than 16777216 bytes' };
  const known = await send('/decode', { body: large, headers: GOOD });
  expect([known.status, JSON.parse(known.text)]).toEqual([413, told]);
  const chunked = await send('/decode', { body: new Blob([large]).stream(), duplex: 'half', headers: GOOD });
  expect([chunked.status, JSON.parse(chunked.text)]).toEqual([413, told]);
  expect((await send('/', { body: new URLSearchParams({ token: 'x'.repeat(5_000) }) })).status).toBe(413);
  // Of the body, which would come later, not a byte was sent.
  const headers = { 'content-length': large.length, 'content-type': 'application/json' };
  const waiting = httpRequest(`${url}/decode`, { method: 'POST', headers });
  waiting.flushHeaders();
  const [response] = (await once(waiting, 'response')) as [{ statusCode: number }];
  expect(response.statusCode).toBe(401);
  waiting.destroy();
});

test('what is no HTTP, or ends in the middle, harms nobody', async () => {
  const { port } = server.address() as AddressInfo;
  const head = `POST /decode HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${TOKEN}\r\n`;
  const more = 'Content-Type: application/json\r\nX-Namespace: jobs\r\nContent-Length: 100\r\n\r\n{"pay';
  for (const text of ['\u0000\u0001nonsense\r\n\r\n', 'POST /decode HTTP/9.9\r\n\r\n', head + more, head]) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.end(text);
    socket.resume();
    await once(socket, 'close');
  }
  expect((await call('decode', bodyOf())).status).toBe(200);
});

test('the command serves until it is ended, and says what it lacks', { timeout: 120_000 }, async () => {
  const env = { PAYLOAD_KEYS_FILE: fileOf('keys.json'), TEMPORAL_NAMESPACE: 'jobs' };
  const args = ['codec-server', '--token-file', fileOf('token'), '--listen', '127.0.0.1:0'];
  let onListening = () => {};
  let answer: Answer | undefined;
  const interruptWhen = new Promise<void>((resolve) => (onListening = resolve));
  const onStdout = (soFar: string) => {
    const [, at] = /^Codec server of namespace jobs: (http:\S+)\n/.exec(soFar) ?? [];
    if (!at) return;
    const body = bodyOf(jsonOf(WORD));
    const headers = { ...GOOD, origin: 'http://localhost:8233' };
    void fetch(`${at}/encode`, { method: 'POST', body, headers }).then(async (response) => {
      answer = { status: response.status, headers: response.headers, text: await response.text() };
      onListening();
    });
  };
  const ended = await runCli(args, { env, onStdout, interruptWhen });
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  expect(answer?.status).toBe(200);
  expect(ended.stdout.split('\n')).toHaveLength(2);

  const refusals = await Promise.all([
    runInProcess(args),
    runInProcess(args, { env: { PAYLOAD_KEYS_FILE: fileOf('none') } }),
    runInProcess(['codec-server', '--token-file', fileOf('none')], { env }),
    runInProcess([...args.slice(0, 3), '--listen', 'nowhere'], { env }),
    runInProcess(args, { env: { ...env, TEMPORAL_ADDRESS: 'temporal.example.com:7233' } }),
  ]);
  expect(refusals.map(({ code, stderr }) => `${code} ${stderr.split('\nUsage')[0]!.trim()}`)).toEqual([
    '1 agent-jobs: PAYLOAD_KEYS_FILE is not set: there is nothing to decrypt with',
    expect.stringMatching(/^1 agent-jobs: 1 setting is wrong:\s+PAYLOAD_KEYS_FILE {2}cannot be read \(ENOENT\)$/),
    `1 agent-jobs: the token file ${fileOf('none')} cannot be read (ENOENT)`,
    expect.stringMatching(/^2 agent-jobs: --listen should be host:port/),
    expect.stringMatching(/^2 agent-jobs: set AGENT_JOBS_WEB_UI_URL/),
  ]);
});

/** `examples/codec-server`, asked as Temporal's web UI and command line ask it. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { AgentJobs } from '../../src/starter.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { shared } from '../support/shared.js';
import { startProgram, type WorkerProcess } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';

const PROGRAM = fileURLToPath(new URL('../../examples/codec-server/server.mjs', import.meta.url));
const UI = 'https://temporal.example.com';
const TOKEN = randomBytes(32).toString('base64');
const WORD = `zeugma${randomBytes(6).toString('hex')}`;

interface JsonPayload {
  metadata: Record<string, string>;
  data: string;
}

const folder = newFolder();
let server: JobServer;
let program: WorkerProcess;
let url: string;
let workflowId: string;

beforeAll(async () => {
  const keys = { current: 'one', keys: { one: randomBytes(32).toString('base64') } };
  await writeFile(join(folder, 'keys.json'), JSON.stringify(keys));
  const dataConverter = { payloadCodecs: [openPayloadCodec(join(folder, 'keys.json'))] };
  server = await startJobServer(undefined, dataConverter);
  const { address, namespace, taskQueue, projectId } = server;
  await using jobs = await AgentJobs.connect({ address, namespace, taskQueue, dataConverter });
  const job = await jobs.start({ projectId, key: 'shown', prompt: `Once ${WORD}`, ...QUICK });
  await job.result();
  ({ workflowId } = job);
  program = await start(TOKEN);
  await program.wrote('Codec server: ');
  url = /http:\S+/.exec(program.output())![0];
});
afterAll(async () => {
  await program?.kill();
  await server?.close();
});

async function start(token: string): Promise<WorkerProcess> {
  await writeFile(join(folder, 'token'), `${token}\n`);
  const files = { PAYLOAD_KEYS_FILE: join(folder, 'keys.json'), CODEC_TOKEN_FILE: join(folder, 'token') };
  return startProgram([PROGRAM], { ...files, WEB_UI_ORIGIN: UI, PORT: '0' });
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');

/** The first input of the job's history, as the server gives it to the web UI. */
async function inputInHistory(): Promise<JsonPayload> {
  const { events } = await server.client.workflow.getHandle(workflowId).fetchHistory();
  const { metadata, data } = events![0]!.workflowExecutionStartedEventAttributes!.input!.payloads![0]!;
  const named = Object.entries(metadata!).map(([name, bytes]) => [name, base64(bytes)]);
  return { metadata: Object.fromEntries(named) as Record<string, string>, data: base64(data!) };
}

async function signIn(token: string): Promise<Response> {
  return fetch(url, { method: 'POST', body: new URLSearchParams({ token }) });
}

async function cookieOf(response: Response): Promise<string> {
  await response.text();
  return response.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
}

function ask(name: string, body: unknown, headers: Record<string, string>): Promise<Response> {
  const given = { 'content-type': 'application/json', 'x-namespace': server.namespace, ...headers };
  return fetch(`${url}/${name}`, { method: 'POST', body: JSON.stringify(body), headers: given });
}

test('pages of the web UI get what is encrypted in clear, once their browser has signed in', async () => {
  const preflight = await fetch(`${url}/decode`, { method: 'OPTIONS', headers: { origin: UI } });
  expect([preflight.status, Object.fromEntries(preflight.headers)]).toMatchObject([
    204,
    {
      'access-control-allow-origin': UI,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'authorization, content-type, x-namespace',
    },
  ]);
  expect(await (await fetch(url)).text()).toContain('type="password"');
  const signedIn = await signIn(TOKEN);
  expect(signedIn.headers.get('set-cookie')).toMatch(/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure$/);
  const browser = { cookie: `a=b; ${await cookieOf(signedIn)}`, origin: UI };

  const encrypted = await inputInHistory();
  expect(atob(encrypted.metadata['encoding']!)).toBe('binary/encrypted');
  const decoded = await ask('decode', { payloads: [encrypted] }, browser);
  expect(decoded.headers.get('access-control-allow-origin')).toBe(UI);
  const { payloads } = (await decoded.json()) as { payloads: JsonPayload[] };
  expect(atob(payloads[0]!.data)).toContain(`Once ${WORD}`);

  const encoded = (await (await ask('encode', { payloads }, browser)).json()) as { payloads: JsonPayload[] };
  expect(encoded.payloads[0]!.data).not.toBe(payloads[0]!.data);
  expect(await (await ask('decode', encoded, browser)).json()).toEqual({ payloads });
});

test('without the token, or for another page, nothing is decrypted', async () => {
  const body = { payloads: [await inputInHistory()] };
  expect([(await signIn('wrong')).status, await cookieOf(await signIn('wrong'))]).toEqual([401, '']);
  const cookie = await cookieOf(await signIn(TOKEN));
  const bearer = `Bearer ${TOKEN}`;
  for (const [headers, status] of [
    [{}, 401],
    [{ authorization: `${bearer}x` }, 401],
    [{ authorization: TOKEN }, 401],
    [{ cookie }, 401],
    [{ cookie: `${cookie}x`, origin: UI }, 401],
    [{ cookie, origin: 'null' }, 403],
    [{ authorization: bearer, origin: `${UI}.evil.example` }, 403],
  ] as const) {
    const answer = await ask('decode', body, headers);
    expect([headers, answer.status, Object.keys((await answer.json()) as object)]).toEqual([
      headers,
      status,
      ['error'],
    ]);
  }
  for (const wrong of [null, { payloads: [null] }, { payloads: [{ ...body.payloads[0], data: 'AAAA' }] }])
    expect((await ask('decode', wrong, { authorization: bearer })).status).toBe(400);
  expect((await ask('decode', ' '.repeat(17 * 1024 * 1024), { authorization: bearer })).status).toBe(413);
  expect((await ask('decode', body, { authorization: bearer })).status).toBe(200);

  const tooShort = await start('short');
  expect(await tooShort.ended).toBe(1);
  expect(tooShort.output()).toContain('the token of CODEC_TOKEN_FILE has fewer than 32 characters');
});

test('Temporal’s own command line reads a job by it', async () => {
  const { path } = await shared('dev-server-program');
  const args = [
    ...['workflow', 'show', '--workflow-id', workflowId, '--output', 'json', '--address', server.address],
    ...['--namespace', server.namespace, '--codec-endpoint', url, '--codec-auth', `Bearer ${TOKEN}`],
  ];
  const { stdout } = await promisify(execFile)(path, args, { env: { HOME: folder, NO_PROXY: '*' } });
  const decoded = [...stdout.matchAll(/"data": "([^"]+)"/g)].map(([, data]) => atob(data!));
  expect(decoded.join()).toContain(`Once ${WORD}`);
});

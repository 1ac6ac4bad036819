import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { beforeAll, expect, test, vi } from 'vitest';
import { livePollers } from '../../src/client/pollers.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { checkProject } from '../../src/exports/snapshots/project-marker.js';
import { startJobServer, type JobServer } from '../client/job-server.js';
import { putDay } from '../report/snapshots.js';
import { startPrivateDevServer } from '../support/dev-server.js';
import { distFolder } from '../support/worker-process.js';
import { Receiver, SECRET } from '../webhooks/receiver.js';
import { envOf, jsonLines } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

const MINUTE = 60_000;

const server = useForFile(startJobServer);
const snapshots = newFolder();
beforeAll(async () => {
  await polled(server);
});

/** A worker polls as soon as it runs, and is listed once Temporal knows it. */
async function polled({ client, taskQueue }: JobServer) {
  const seen = async () => {
    for (const polledFor of ['workflow', 'activity'] as const) {
      expect(await livePollers(client, taskQueue, polledFor)).not.toEqual([]);
    }
  };
  await vi.waitFor(seen, { timeout: MINUTE, interval: 100 });
}

function wellEnv(): Record<string, string> {
  const { url, apiKey } = server.sandbox;
  return {
    ...envOf(server),
    UPSTREAM_BASE_URL: url,
    ADMIN_API_KEY: apiKey,
    SNAPSHOTS_URL: pathToFileURL(snapshots).href,
  };
}

/** What each check found, by its name. */
async function doctor(env: Record<string, string>, ...args: string[]) {
  const { code, stdout, stderr } = await runInProcess(['doctor', '--json', ...args], { env });
  const found = Object.fromEntries(jsonLines(stdout).map(({ check, ...rest }) => [check, rest]));
  return { code, found: found as Record<string, { status: string; text: string; remedy: string[] }>, stderr };
}

test('a project with fresh snapshots and no Schedule is named', async () => {
  const root = newFolder();
  const url = pathToFileURL(root).href;
  const store = await openStore(url);
  const day = (before: number) => new Date(Date.now() - before * 86_400_000).toISOString().slice(0, 10);
  for (const [project, date] of [
    ['forgotten', day(1)],
    ['given-up', day(40)],
  ] as const) {
    await checkProject(store, project, true);
    await putDay(store, project, { date, rows: [] });
  }
  const { found, code } = await doctor({ ...wellEnv(), SNAPSHOTS_URL: url });
  expect(found['Snapshots']).toMatchObject({ status: 'warn', text: expect.stringMatching(/no Schedule: forgotten$/) });
  expect(code).toBe(0);
});

test('where all is well each check is ok, and nothing is left behind', async () => {
  const { code, found, stderr } = await doctor(wellEnv());
  const statuses = Object.entries(found).map(([check, { status }]) => [check, status]);
  expect(Object.fromEntries(statuses)).toEqual({
    Temporal: 'ok',
    'Search attributes': 'ok',
    Worker: 'ok',
    Upstream: 'ok',
    Snapshots: 'ok',
    Webhooks: 'skip',
  });
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(await readdir(snapshots)).toEqual([]);
  expect(await server.sandbox.creates({})).toHaveLength(0);
});

test('no worker, a refused key and a store that fails are failures, each with what to do', async () => {
  const env = { ...wellEnv(), ADMIN_API_KEY: 'not-this-one', SNAPSHOTS_URL: 'file:///etc/hostname' };
  const { code, found } = await doctor(env, '--task-queue', 'nobody', '--exports');
  const text = ['nobody', 'nobody-export'].map((queue) => `no worker polls the task queue "${queue}"`).join('\n');
  const remedy = ['start one: AGENT_JOBS_TASK_QUEUE=nobody npm run worker', 'run a worker with SNAPSHOTS_URL set'];
  expect(found['Worker']).toEqual({ status: 'fail', text, remedy });
  expect(found['Upstream']).toMatchObject({ status: 'fail', text: expect.stringMatching(/401.*check the key/) });
  expect(found['Snapshots']).toMatchObject({ status: 'fail', text: expect.stringContaining('write') });
  expect(JSON.stringify(found)).not.toContain('not-this-one');
  expect(code).toBe(1);
});

test('a folder that no export can make is a failure, and one that it makes a warning', async () => {
  const find = async (url: string) => (await doctor({ ...wellEnv(), SNAPSHOTS_URL: url })).found['Snapshots'];
  const text = 'file:///etc/hostname/a/b is not there, and an export can not make it: /etc/hostname is no folder';
  expect(await find('file:///etc/hostname/a/b')).toMatchObject({ status: 'fail', text });
  const later = `${pathToFileURL(newFolder()).href}/a/b`;
  expect(await find(later)).toMatchObject({ status: 'warn', text: expect.stringContaining('makes it') as string });
});

test('a store with room for less than an export asks for is a failure', async () => {
  const script = 'ulimit -f 512; exec "$0" "$1" doctor --json'; // no file may be larger than 512 KiB
  const args = ['-c', script, process.execPath, join(distFolder, 'cli/main.js')];
  const { stdout } = spawn('bash', args, { env: wellEnv(), timeout: MINUTE, stdio: ['ignore', 'pipe', 'inherit'] });
  const found = jsonLines(await textOf(stdout)).find(({ check }) => check === 'Snapshots');
  expect(found).toMatchObject({ status: 'fail', text: expect.stringContaining('EFBIG') as string });
});

test('an upstream in whose place a page or a redirect answers is a failure that says so', async () => {
  const answers = [
    [403, 'text/html', '<title>Just a moment…</title>', 'a page instead of an answer: 403 Just a moment…'],
    [404, 'text/plain', 'default backend - 404', 'a page instead of an answer: 404 default backend - 404'],
    [302, 'text/html', '', 'a redirect instead of an answer: 302 to https://login.example/sso'],
  ] as const;
  for (const [status, type, body, text] of answers) {
    const headers = { 'content-type': type, location: 'https://login.example/sso' };
    await server.sandbox.addFault({ kind: 'status', operation: 'get', status, body, headers });
    const { Upstream } = (await doctor(wellEnv())).found;
    expect(Upstream).toMatchObject({ status: 'fail', text: expect.stringContaining(text) });
    expect(Upstream!.text).not.toContain('check the key');
  }
});

test('a worker that has ended is not counted, though Temporal remembers its polls for minutes', async () => {
  const other = await startJobServer();
  await polled(other);
  const text = expect.stringMatching(/^1 worker polls the task queue .*, last \d+ s ago$/) as string;
  expect((await doctor(envOf(other))).found['Worker']).toMatchObject({ status: 'ok', text });
  await other.close();
  const { code, found } = await doctor(envOf(other));
  expect(found['Worker']).toMatchObject({ status: 'fail', text: expect.stringContaining('no worker polls') });
  expect(code).toBe(1);
});

test('a fresh namespace lacks the search attributes and remembers keys for too short a time', async () => {
  const namespace = `doctor-${randomUUID()}`;
  await server.client.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: { seconds: 3 * 86_400 } as never,
  });
  const env = { ...envOf(server), TEMPORAL_NAMESPACE: namespace };
  // A server looks for new namespaces every few seconds.
  await expect.poll(async () => (await doctor(env)).found['Temporal']?.status).toBe('warn');
  const { code, found } = await doctor(env);
  expect(found['Search attributes']).toMatchObject({ status: 'fail', remedy: ['npx agent-jobs setup'] });
  expect(found['Temporal']).toMatchObject({
    status: 'warn',
    text: expect.stringMatching(/^answers, .*; a key is remembered for 3 days after its job ended$/),
    remedy: [expect.stringContaining('below 30 days'), expect.stringContaining(`--namespace "${namespace}"`)],
  });
  expect(code).toBe(1);
});

test('what the upstream answers but a refused key is well; keys of projects alone need a name', async () => {
  const env = { ...wellEnv(), TEMPORAL_ADDRESS: '127.0.0.1:1' };
  await server.sandbox.addFault({ kind: 'status', status: 400 });
  expect((await doctor(env)).found['Upstream']?.status).toBe('ok');
  const keys = join(snapshots, '..', `keys-${randomUUID()}.json`);
  await writeFile(keys, JSON.stringify({ acme: server.sandbox.apiKey }), { mode: 0o600 });
  const byProject = { ...env, ADMIN_API_KEY: '', PROJECT_KEYS_FILE: keys };
  const text = 'not checked: only projects have keys; name one with --project';
  expect((await doctor(byProject)).found['Upstream']).toMatchObject({ status: 'skip', text });
  expect((await doctor(byProject, '--project', 'acme')).found['Upstream']?.status).toBe('ok');
  const silent = await doctor({ ...env, UPSTREAM_BASE_URL: 'http://127.0.0.1:1' });
  expect(silent.found['Upstream']?.status).toBe('fail');
});

test('a namespace that is not there is named, and what depends on it is not checked', async () => {
  const { code, found } = await doctor({ ...wellEnv(), TEMPORAL_NAMESPACE: 'nowhere' });
  expect(found['Temporal']).toMatchObject({ status: 'fail', text: expect.stringContaining('TEMPORAL_NAMESPACE') });
  expect(found['Worker']?.status).toBe('skip');
  expect(found['Upstream']?.status).toBe('ok');
  expect(code).toBe(1);
});

test('a server that is not there, or stands still, exits 11; settings that are wrong are named besides', async () => {
  const away = await doctor({ TEMPORAL_ADDRESS: '127.0.0.1:1', UPSTREAM_BASE_URL: 'ftp://x', ADMIN_API_KEY: 'k' });
  expect(away.found['Temporal']).toMatchObject({ status: 'fail', text: expect.stringContaining('can not reach') });
  expect(away.found['Upstream']).toMatchObject({
    status: 'fail',
    text: expect.stringContaining('UPSTREAM_BASE_URL'),
  });
  expect(away.code).toBe(11);
  const program = await startPrivateDevServer();
  try {
    process.kill(program.pid, 'SIGSTOP');
    const still = await doctor({ TEMPORAL_ADDRESS: program.address, TEMPORAL_NAMESPACE: program.namespace });
    expect(still.found['Temporal']?.status).toBe('fail');
    expect(still.code).toBe(11);
  } finally {
    process.kill(program.pid, 'SIGCONT');
    await program.stop();
  }
});

test('the endpoints of webhooks are counted', async () => {
  const receiver = await new Receiver().start();
  const endpoint = { url: receiver.url, secrets: [SECRET], events: ['visitor_export.ended'] };
  await receiver.configure({ p: [endpoint], q: [endpoint] });
  const env = { WEBHOOKS_FILE: receiver.file, WEBHOOKS_ALLOW_PRIVATE: 'true', TEMPORAL_ADDRESS: '127.0.0.1:1' };
  expect((await doctor(env)).found['Webhooks']).toMatchObject({ status: 'ok', text: '2 endpoints named' });
  receiver.close();
});

test('a wrong file of payload keys is named, for without them no answer of Temporal can be read', async () => {
  const keysFile = join(snapshots, '..', `keys-${randomUUID()}.json`);
  await writeFile(keysFile, '{}');
  const { code, found } = await doctor({ ...wellEnv(), PAYLOAD_KEYS_FILE: keysFile });
  expect(found['Temporal']).toMatchObject({ status: 'fail', text: expect.stringContaining('PAYLOAD_KEYS_FILE') });
  expect(code).toBe(1);
});

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { copyFile, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, test } from 'vitest';
import { DataFolder, dataFolder, runningSystems, userFolder } from '../../src/local/data-folder.js';
import { freePort } from '../../src/local/child-process.js';
import { newFolder } from '../support/folder.js';

let parent: string;
beforeEach(async () => {
  // A folder's port follows from its path, and another program may have that one.
  for (let isFree = false; !isFree;) {
    parent = newFolder();
    const folders = [join(parent, 'default'), dataFolder({ XDG_STATE_HOME: parent }, 'default')];
    isFree = (await Promise.all(folders.map(canTake))).every(Boolean);
    await rm(parent, { recursive: true });
    if (isFree) await mkdir(parent);
  }
});

const canTake = (folder: string) =>
  DataFolder.take(folder).then(
    (taken) => {
      taken.release();
      return true;
    },
    () => false,
  );
const take = () => DataFolder.take(join(parent, 'default'));
const systemFile = () => join(parent, 'default', 'system.json');
const outcomesOf = async (starts: Promise<DataFolder>[]) =>
  (await Promise.allSettled(starts)).map(({ status }) => status).toSorted();

test('a second start is refused with the address of the first, until the first ends', async () => {
  const first = await take();
  await expect(take()).rejects.toThrow(`npm start already runs (${first.path})`);
  first.publish({ address: '127.0.0.1:7233', serverPid: process.pid, taskQueue: 'q', webUiUrl: 'http://ui' });
  await expect(take()).rejects.toThrow('npm start already runs, and serves Temporal at 127.0.0.1:7233');
  await symlink(parent, join(parent, 'alias'));
  await expect(DataFolder.take(join(parent, 'alias', 'default'))).rejects.toThrow('npm start already runs');
  first.release();
  (await take()).release();
});

test.each([
  ['none', null],
  ['that of a killed start', JSON.stringify({ address: '127.0.0.1:9', serverPid: 2 ** 22 + 1 })],
  ['a torn write', '{"address":'],
  ['that of another program', '{"address": 1}'],
])('of starts at the same time one takes the folder, if the file is %s', async (_, text) => {
  (await take()).release();
  if (text !== null) await writeFile(systemFile(), text);
  expect(await outcomesOf([take(), take(), take()])).toEqual(['fulfilled', 'rejected', 'rejected']);
});

test('a user id without an entry and a HOME has a folder that is not there', () => {
  const noEntry = () => {
    throw new Error('uv_os_homedir returned ENOENT');
  };
  expect(userFolder({}, 'STATE', noEntry)).toBe('/nonexistent/.local/state/agent-jobs');
});

test('the address of a killed start is not that of the next one, which has none yet', async () => {
  const folder = dataFolder({ XDG_STATE_HOME: parent }, 'default');
  const killed = await DataFolder.take(folder);
  killed.publish({ address: '127.0.0.1:9', serverPid: 2 ** 22 + 1, taskQueue: 'q', webUiUrl: 'http://ui' });
  await copyFile(killed.file('system.json'), killed.file('kept'));
  killed.release();
  await rename(killed.file('kept'), killed.file('system.json'));
  const next = await DataFolder.take(folder);
  expect(await runningSystems({ XDG_STATE_HOME: parent })).toEqual([]);
  next.release();
});

test('a suspended start keeps its folder, and commands find it; a killed one does not', async () => {
  const module = new URL('../../dist/local/data-folder.js', import.meta.url).href;
  const address = JSON.stringify({ address: '127.0.0.1:1', serverPid: 0, taskQueue: 'q', webUiUrl: 'http://ui' });
  const script = `const { DataFolder } = await import(${JSON.stringify(module)});
    (await DataFolder.take(${JSON.stringify(join(parent, 'agent-jobs', 'data', 'default'))})).publish(${address});
    console.log('taken'); setInterval(() => {}, 1_000);`;
  const other = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(other.stdout, 'data');
  const again = () => DataFolder.take(dataFolder({ XDG_STATE_HOME: parent }, 'default'));
  const running = async () => (await runningSystems({ XDG_STATE_HOME: parent })).map((one) => one.address);
  other.kill('SIGSTOP');
  await expect(again()).rejects.toThrow('npm start already runs, and serves Temporal at 127.0.0.1:1');
  // More than its queue of connections takes.
  expect((await Promise.all(Array.from({ length: 600 }, running))).flat()).toHaveLength(600);
  other.kill('SIGKILL');
  await once(other, 'exit');
  expect(await running()).toEqual([]);
  (await again()).release();
});

test('the folder is closed to other users, also if it was open before', async () => {
  await mkdir(join(parent, 'default'), { mode: 0o755 });
  (await take()).release();
  expect((statSync(join(parent, 'default')).mode & 0o777).toString(8)).toBe('700');
});

test('the user’s folders lie where XDG names them, else in the home folder', () => {
  const env = { HOME: '/home/me', XDG_CACHE_HOME: 'relative', XDG_STATE_HOME: '/state' };
  expect(userFolder(env, 'CACHE')).toBe(join('/home/me', '.cache', 'agent-jobs'));
  expect(dataFolder(env, 'real')).toBe(join('/state', 'agent-jobs', 'data', 'real'));
});

test('a start waits for the server of a killed one, which still has the database', async () => {
  const script =
    "require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })";
  const server = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(server.stdout, 'data')) as [Buffer];
  (await take()).release();
  const address = `127.0.0.1:${Number(port)}`;
  await writeFile(systemFile(), JSON.stringify({ serverPid: server.pid, address }));
  let isTaken = false;
  const taken = take().finally(() => (isTaken = true));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(isTaken).toBe(false);
  server.kill('SIGKILL');
  (await taken).release();
});

test('a program ends with the process that starts it, also before its start is reported', async () => {
  const module = new URL('../../dist/local/child-process.js', import.meta.url).href;
  const started = { program: process.execPath, args: ['-e', 'setInterval(() => {}, 1_000)', parent], env: {} };
  const script = `const { startProcess } = await import(${JSON.stringify(module)});
    void startProcess(${JSON.stringify({ ...started, logFile: join(parent, 'log') })});
    process.exit();`;
  const other = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' });
  await once(other, 'exit');
  const running = async () => (await promisify(execFile)('ps', ['-eo', 'stat=,args='])).stdout.includes(parent);
  await expect.poll(running).toBe(false);
});

test('a busy port is passed over for a free one that no outgoing connection takes', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const busy = (server.address() as AddressInfo).port;
    const port = await freePort(busy);
    expect(port).not.toBe(busy);
    expect(port).toBeLessThan(32_768);
    expect(await freePort(port)).toBe(port);
    expect(await freePort(port, [port])).not.toBe(port);
  } finally {
    server.close();
  }
});

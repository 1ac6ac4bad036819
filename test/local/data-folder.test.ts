import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DataFolder } from '../../src/local/data-folder.js';
import { freePort } from '../../src/local/child-process.js';

let parent: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'agent-jobs-data-'));
});
afterEach(() => rm(parent, { recursive: true, force: true }));

const take = () => DataFolder.take(join(parent, 'default'));
const claimFile = () => join(parent, 'default', 'system.json');
const outcomesOf = async (starts: Promise<DataFolder>[]) =>
  (await Promise.allSettled(starts)).map(({ status }) => status).toSorted();

test('a second start is refused with the address of the first, until the first ends', async () => {
  const first = await take();
  await expect(take()).rejects.toThrow(`npm start already is starting (process ${process.pid}, ${first.path})`);
  first.tellPlace({ address: '127.0.0.1:7233', serverPid: process.pid, taskQueue: 'q', webUiUrl: 'http://ui' });
  await expect(take()).rejects.toThrow('npm start already runs, and serves Temporal at 127.0.0.1:7233');
  first.release();
  (await take()).release();
});

test('of starts at the same time one takes the folder, also if the last owner was killed', async () => {
  expect(await outcomesOf([take(), take(), take()])).toEqual(['fulfilled', 'rejected', 'rejected']);
});

test.each([
  ['a killed start', JSON.stringify({ pid: 2 ** 22 + 1, port: 9, token: 'a' })],
  ['a torn write', '{"pid":'],
  ['another program', '{"address": "127.0.0.1:7233"}'],
])('the file of %s is stale', async (_, text) => {
  (await take()).release();
  await writeFile(claimFile(), text);
  expect(await outcomesOf([take(), take(), take()])).toEqual(['fulfilled', 'rejected', 'rejected']);
});

test('a start ends with the name of a file that it can neither read nor create', async () => {
  (await take()).release();
  await mkdir(claimFile());
  await expect(take()).rejects.toThrow(`${claimFile()} can't be read: remove it`);
  await rm(claimFile(), { recursive: true });
  await symlink('nowhere', claimFile());
  await expect(take()).rejects.toThrow(`${claimFile()} can't be read: remove it`);
});

test('a suspended start keeps its folder; a stranger on the port of a killed one does not', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  try {
    (await take()).release();
    await writeFile(claimFile(), JSON.stringify({ pid: process.pid, port, token: 'a' }));
    await expect(take()).rejects.toThrow('npm start already');
    await writeFile(claimFile(), JSON.stringify({ pid: 2 ** 22 + 1, port, token: 'a' }));
    (await take()).release();
  } finally {
    silent.close();
  }
});

test('a stranger that talks without end on the port of a killed start keeps no folder', async () => {
  const talker = createServer((socket) => {
    const timer = setInterval(() => socket.write('hello'), 10);
    socket.on('error', () => {}).on('close', () => clearInterval(timer));
  }).listen(0, '127.0.0.1');
  await once(talker, 'listening');
  const { port } = talker.address() as AddressInfo;
  try {
    (await take()).release();
    await writeFile(claimFile(), JSON.stringify({ pid: 2 ** 22 + 1, port, token: 'a' }));
    expect(await outcomesOf([take()])).toEqual(['fulfilled']);
  } finally {
    talker.close();
  }
}, 10_000);

test('a start waits for the server of a killed one, which still has the database', async () => {
  const script =
    "require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })";
  const server = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(server.stdout, 'data')) as [Buffer];
  (await take()).release();
  const claim = { pid: 2 ** 22 + 1, port: 9, token: 'a', serverPid: server.pid, address: `127.0.0.1:${Number(port)}` };
  await writeFile(claimFile(), JSON.stringify(claim));
  let isTaken = false;
  const taken = take().finally(() => (isTaken = true));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(isTaken).toBe(false);
  server.kill('SIGKILL');
  (await taken).release();
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

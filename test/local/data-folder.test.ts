import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DataFolder, identify, isAlive, type ProcessIdentity } from '../../src/local/data-folder.js';
import { freePort } from '../../src/local/child-process.js';

let parent: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'agent-jobs-data-'));
});
afterEach(() => rm(parent, { recursive: true, force: true }));

/** Writes the lock file of another process. */
async function lockFor(owner: ProcessIdentity, children: ProcessIdentity[] = []): Promise<void> {
  const folder = await DataFolder.acquire(parent, 'default');
  await writeFile(folder.file('in-use.json'), JSON.stringify({ owner, children }));
}

test('each start takes a folder that nobody uses, and a released one again', async () => {
  const first = await DataFolder.acquire(parent, 'default');
  const second = await DataFolder.acquire(parent, 'default');
  expect([first.path, second.path]).toEqual([join(parent, 'default'), join(parent, 'default-2')]);
  first.release();
  expect((await DataFolder.acquire(parent, 'default')).path).toBe(join(parent, 'default'));
});

test('starts at the same time never share a folder, also where the last owner was killed', async () => {
  await lockFor({ pid: 2 ** 22 + 1, startedAt: '1' });
  const folders = await Promise.all(Array.from({ length: 5 }, () => DataFolder.acquire(parent, 'default')));
  expect(new Set(folders.map(({ path }) => path)).size).toBe(5);
});

test('what a killed owner left running is ended, and another process with the same id is not', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const bystander = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  try {
    const left = identify(child.pid as number) as ProcessIdentity;
    const reused = { pid: bystander.pid as number, startedAt: 'at another time' };
    await lockFor({ pid: process.pid, startedAt: 'at another time' }, [left, reused]);
    const folder = await DataFolder.acquire(parent, 'default');
    expect(folder.path).toBe(join(parent, 'default'));
    expect(isAlive(left)).toBe(false);
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
  } finally {
    child.kill('SIGKILL');
    bystander.kill('SIGKILL');
  }
});

test('a lock file that can not be read is stale', async () => {
  const folder = await DataFolder.acquire(parent, 'default');
  await writeFile(folder.file('in-use.json'), '{"owner":');
  expect((await DataFolder.acquire(parent, 'default')).path).toBe(folder.path);
  expect(await readFile(folder.file('in-use.json'), 'utf8')).toContain(String(process.pid));
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

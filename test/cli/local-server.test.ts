/** Which server a command goes to where `npm start` runs on this machine. */
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { connect } from '../../src/cli/session.js';
import { DataFolder } from '../../src/local/data-folder.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';

test('a server that is named is the one, else the one local system that runs; of two none is guessed', async () => {
  const state = newFolder();
  const root = join(state, 'agent-jobs', 'data');
  const place = { taskQueue: 'agent-jobs', webUiUrl: 'http://ui', serverPid: process.pid };
  const list = async (args: string[] = [], env = {}) =>
    (await runInProcess(['list', ...args], { env: { XDG_STATE_HOME: state, ...env } })).stderr;
  const demo = await DataFolder.take(join(root, 'default'));
  demo.publish({ ...place, address: '127.0.0.1:1' });
  expect(await list()).toMatch(
    /is that of npm start, 127\.0\.0\.1:1, .*default\n.*can not reach Temporal at 127\.0\.0\.1:1/,
  );
  for (const other of [list(['--address', '127.0.0.1:2']), list([], { TEMPORAL_ADDRESS: '127.0.0.1:2' })]) {
    expect(await other).toMatch(/^agent-jobs: can not reach Temporal at 127\.0\.0\.1:2/);
  }
  const real = await DataFolder.take(join(root, 'real'));
  real.publish({ ...place, address: '127.0.0.1:3' });
  expect(await list()).toMatch(
    /several systems .* run.*\n {2}--address 127\.0\.0\.1:1 .*default\n {2}--address 127\.0\.0\.1:3 .*real\n/,
  );
  real.release();
  expect(await list()).toContain('can not reach Temporal at 127.0.0.1:1');
  demo.release();
  expect(await list()).not.toContain('127.0.0.1');
});

test('a server that the environment names stays the one when a program connects again', async () => {
  const state = newFolder();
  const demo = await DataFolder.take(join(state, 'agent-jobs', 'data', 'default'));
  demo.publish({ address: '127.0.0.1:1', taskQueue: 'agent-jobs', webUiUrl: 'http://ui', serverPid: process.pid });
  vi.stubEnv('XDG_STATE_HOME', state);
  vi.stubEnv('TEMPORAL_ADDRESS', '127.0.0.1:1');
  vi.stubEnv('TEMPORAL_CONFIG_FILE', undefined);
  try {
    await expect(connect({})).rejects.toThrow('can not reach Temporal at 127.0.0.1:1');
    demo.release();
    await expect(connect({})).rejects.toThrow('can not reach Temporal at 127.0.0.1:1');
  } finally {
    vi.unstubAllEnvs();
  }
});

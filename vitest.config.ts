import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { LanesMixed, SYSTEM } from './test/support/lanes-mixed.js';

// The proxy of the machine, where it has one, is none for the servers that tests start.
const { no_proxy = '', NO_PROXY = no_proxy } = process.env;
process.env['NO_PROXY'] = process.env['no_proxy'] = [NO_PROXY, '127.0.0.1', 'localhost'].filter(Boolean).join(',');

const source = (module: string) => fileURLToPath(new URL(`src/${module}.ts`, import.meta.url));
// In the repository the client's package is its sources, as in tsconfig.json.
const resolve = {
  alias: [
    { find: /^agent-jobs-client$/, replacement: source('starter') },
    { find: /^agent-jobs-client\/testing$/, replacement: source('client/fake-agent-jobs') },
  ],
};
const limits = {
  maxConcurrency: 10, // of tests that mostly wait, in one file
  testTimeout: 300_000, // a busy machine is slow
  expect: { poll: { timeout: 120_000, interval: 200 } },
  hookTimeout: 120_000, // the first run fetches two servers
  teardownTimeout: 15_000,
};
const RECORDING = 'test/replay/record.test.ts';
/** Files that replace a module. All others share processes, and leave nothing behind: 2 seconds of CPU saved each. */
const REPLACING = ['model/simulated', 'unit/listen-address'].map((file) => `test/${file}.test.ts`);

/** Recording is a command of its own, `npm run test:record-histories`. */
const recording = [{ resolve, test: { ...limits, name: 'record', include: [RECORDING] } }];
const shared = { ...limits, isolate: false, setupFiles: ['test/support/leave-nothing.ts'] };
/** Folders in which `npm test` runs only the files that a promise names: it takes at most 8 minutes. */
const LEFT_OUT = [...SYSTEM, 'cli', 'client', 'export', 'worker'];
/** The files of tests that the table of promises names. */
const promised = () =>
  readFileSync(new URL('docs/promises.md', import.meta.url), 'utf8').match(/test\/[\w/-]+\.test\.ts/g) ?? [];
/** All tests (`npm run test:all`), or every promise and what is near the core (`npm test`). */
const tests = (isFast: boolean) => {
  const leftOut = isFast ? LEFT_OUT.map((folder) => `test/${folder}/**`) : [];
  const fast = ['test/*.test.ts', `test/!(${LEFT_OUT.join('|')})/**/*.test.ts`, ...promised()];
  const include = isFast ? fast : ['test/**/*.test.ts'];
  return [
    { resolve, test: { ...limits, name: 'isolated', include: REPLACING, exclude: leftOut } },
    { resolve, test: { ...shared, name: 'shared', include, exclude: [...REPLACING, RECORDING] } },
  ];
};

export default defineConfig(({ mode }) => ({
  test: {
    globalSetup: ['test/support/test-host.ts'],
    // Tests wait much of the time: four processes keep two cores busy.
    pool: 'forks',
    maxWorkers: 4,
    sequence: { sequencer: LanesMixed },
    projects: mode === 'record-histories' ? recording : tests(mode === 'fast'),
  },
}));

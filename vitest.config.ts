import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// The proxy of the machine, where it has one, is none for the servers that tests start.
const { no_proxy = '', NO_PROXY = no_proxy } = process.env;
process.env['NO_PROXY'] = process.env['no_proxy'] = [NO_PROXY, '127.0.0.1', 'localhost'].filter(Boolean).join(',');

const source = (module: string) => fileURLToPath(new URL(`src/${module}.ts`, import.meta.url));

export default defineConfig(({ mode }) => ({
  // In the repository the client's package is its sources, as in tsconfig.json.
  resolve: {
    alias: [
      { find: /^agent-jobs-client$/, replacement: source('starter') },
      { find: /^agent-jobs-client\/testing$/, replacement: source('client/fake/fake-agent-jobs') },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    // Recording is a command of its own, `npm run test:record-histories`.
    exclude: mode === 'record-histories' ? [] : ['test/replay/record.test.ts'],
    globalSetup: ['test/support/test-host.ts'],
    // Temporal’s native parts want a process per file. Tests wait a good part of the time: four files keep two cores
    // four fifths busy.
    pool: 'forks',
    maxWorkers: 4,
    maxConcurrency: 10, // of tests that mostly wait, in one file
    testTimeout: 90_000, // a busy machine is slow
    expect: { poll: { timeout: 40_000 } },
    hookTimeout: 120_000, // the first run fetches two servers
    teardownTimeout: 15_000,
  },
}));

import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Recording is a command of its own, `npm run record-histories`.
    exclude: process.env['RECORD_HISTORIES'] ? [] : ['test/replay/record.test.ts'],
    globalSetup: ['test/support/test-host.ts'],
    // Temporal's native parts want a process per file; each file brings a worker, so more at once than cores only wait.
    pool: 'forks',
    maxWorkers: 2,
    maxConcurrency: 10, // of tests that mostly wait, in one file
    testTimeout: 30_000,
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 120_000, // the first run fetches two servers
    teardownTimeout: 15_000,
  },
});

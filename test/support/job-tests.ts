/** What each test file of `agentJob` sets up: a server, and an upstream and a worker for each test. */
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { connectDevServer, type TestServer } from './dev-server.js';
import { startJobBench, type JobBench } from './job-bench.js';
import { ObservedUpstream } from './observed-upstream.js';

/** On the dev server that the test run shares. */
export function useDevServer(): { server: TestServer; upstream: ObservedUpstream; bench: JobBench } {
  const tests = {} as { server: TestServer; upstream: ObservedUpstream; bench: JobBench };
  beforeAll(async () => {
    tests.server = await connectDevServer();
  });
  afterAll(() => tests.server.close());
  beforeEach(async () => {
    tests.upstream = new ObservedUpstream();
    tests.bench = await startJobBench(tests.server, tests.upstream);
  });
  afterEach(() => tests.bench.stop());
  return tests;
}

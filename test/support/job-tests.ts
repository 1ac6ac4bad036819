/** What each test file of `agentJob` sets up: a server, and an upstream and a worker for each test. */
import type { Client } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { NativeConnection } from '@temporalio/worker';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { connectDevServer, type TestServer } from './dev-server.js';
import { startJobBench, type JobBench } from './job-bench.js';
import { ObservedUpstream } from './observed-upstream.js';
import { startTimeSkipping } from './time-skipping.js';

interface JobTests {
  upstream: ObservedUpstream;
  bench: JobBench;
}

/**
 * For tests with long waits. One job at a time; only `result()` and `environment.sleep` let time pass. Each test has a
 * server of its own: what one leaves behind, such as a signal to a job that has ended, keeps this server from skipping.
 */
export function useSkippedTime(): JobTests & { environment: TestWorkflowEnvironment } {
  const tests = {} as JobTests & { environment: TestWorkflowEnvironment };
  beforeEach(async () => {
    tests.environment = await startTimeSkipping();
  });
  afterEach(async () => tests.environment.teardown());
  return withBench(tests, () => tests.environment);
}

/** For tests in which the server's own ways matter. */
export function useDevServer(): JobTests & { server: TestServer } {
  const tests = {} as JobTests & { server: TestServer };
  beforeAll(async () => {
    tests.server = await connectDevServer();
  });
  afterAll(async () => tests.server.close());
  return withBench(tests, () => tests.server);
}

function withBench<T extends JobTests>(
  tests: T,
  server: () => { client: Client; nativeConnection: NativeConnection },
): T {
  beforeEach(async () => {
    tests.upstream = new ObservedUpstream();
    tests.bench = await startJobBench(server(), tests.upstream);
  });
  afterEach(async () => tests.bench.stop());
  return tests;
}

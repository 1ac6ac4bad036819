/** What each test file of `agentJob` sets up: a server, and an upstream and a worker that are new for each test. */
import { afterEach, beforeEach } from 'vitest';
import { connectDevServer, type TestServer } from './dev-server.js';
import { startJobBench, type JobBench, type JobBenchOptions } from './job-bench.js';
import { ObservedUpstream } from './observed-upstream.js';
import { useForFile } from './use.js';

interface JobTests {
  server: TestServer;
  upstream: ObservedUpstream;
  bench: JobBench;
}

/** By default on the dev server that the test run shares. */
export function useDevServer(options: JobBenchOptions = {}, connect = connectDevServer): JobTests {
  const server = useForFile(connect);
  const upstream = new ObservedUpstream();
  const bench = {} as JobBench;
  beforeEach(async () => {
    // What a test has put in place of a method goes, too.
    for (const name of Object.keys(upstream)) Reflect.deleteProperty(upstream, name);
    Object.assign(upstream, new ObservedUpstream());
    Object.assign(bench, await startJobBench(server, upstream, options));
  });
  afterEach(() => bench.stop());
  return { server, upstream, bench };
}

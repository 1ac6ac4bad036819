import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import type { TestServer } from './dev-server.js';
import { startJobBench } from './job-bench.js';

/**
 * Starts a worker of jobs in this process, which costs a tenth of one of its own: for tests in which it matters only
 * that one is there. Answers with what ends it.
 */
export async function startJobsWorker(
  server: Pick<TestServer, 'client' | 'nativeConnection'>,
  taskQueue: string,
  { url: baseUrl, apiKey: adminApiKey }: { url: string; apiKey: string },
): Promise<() => Promise<void>> {
  const keys = createKeySource({ adminApiKey });
  const upstream = createUpstream({ baseUrl, keys, timeoutMs: 20_000, notTakenStatuses: [] });
  const bench = await startJobBench(server, upstream, { holdsPolls: true, taskQueue });
  return async () => {
    await bench.stop();
    await upstream.close();
  };
}

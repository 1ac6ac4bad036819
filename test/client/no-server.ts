/** A client whose server is not there: what passes its checks ends as `TEMPORAL_UNAVAILABLE`. */
import { Client, Connection } from '@temporalio/client';
import { afterAll } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { RequestRetries } from '../../src/temporal/grpc.js';

/** For the tests of a file. */
export function useNoServer(): AgentJobs {
  const retries = new RequestRetries();
  const connection = Connection.lazy({
    address: '127.0.0.1:1',
    connectTimeout: 100,
    interceptors: [retries.interceptor],
  });
  afterAll(async () => {
    await retries.end();
    await connection.close();
  });
  return new AgentJobs({ client: new Client({ connection }), timeoutMs: 100 });
}

import { InterceptingCall } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { connectDevServer } from '../support/dev-server.js';
import { gathered } from './job-server.js';

const UNKNOWN_TO_OLDER_SERVERS = ['TemporalReportedProblems', 'TemporalWorkflowVersioningBehavior'];

test('on a server that neither marks workflows nor knows versions none is listed', async () => {
  const server = await connectDevServer();
  let asked = 0;
  const connection = await Connection.connect({
    address: server.address,
    interceptors: [
      (options, next) =>
        new InterceptingCall(next(options), {
          sendMessage(message: Uint8Array, send) {
            const bytes = Buffer.from(message);
            for (const name of UNKNOWN_TO_OLDER_SERVERS) {
              const at = bytes.indexOf(name);
              // As many bytes, for they stand behind their count.
              if (at >= 0) asked += bytes.write('X', at);
            }
            send(bytes);
          },
        }),
    ],
  });
  const jobs = new AgentJobs({ client: new Client({ connection, namespace: server.namespace }) });
  expect(await gathered(jobs.stuck())).toEqual([]);
  expect(asked).toBe(2);
  await connection.close();
  await server.close();
});

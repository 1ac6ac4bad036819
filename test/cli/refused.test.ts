import { once } from 'node:events';
import { createServer, type Http2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 120_000;
const UNAUTHENTICATED = '16';

let server: Http2Server;
beforeAll(async () => {
  server = createServer();
  // Every call is answered as a gRPC server answers a key that it does not take.
  server.on('stream', (stream) => {
    stream.on('error', () => {});
    const refusal = { 'grpc-status': UNAUTHENTICATED, 'grpc-message': 'Request unauthorized.' };
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...refusal }, { endStream: true });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => new Promise((closed) => server.close(closed)));

test(
  'the command state tells what to do where Temporal refuses the key, and does not show it',
  async () => {
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const env = { TEMPORAL_ADDRESS: address, TEMPORAL_API_KEY: 'a-secret-key', TEMPORAL_TLS: 'false' };
    const { code, stdout, stderr } = await runInProcess(['state', 'any'], { env });
    expect(stderr).toBe(
      `agent-jobs: Temporal at ${address} refuses the credentials: Request unauthorized.; ` +
        'check TEMPORAL_API_KEY or the client certificate, and its rights in namespace "default"\n',
    );
    expect(stdout).toBe('');
    expect(code).toBe(1);
  },
  MOST_MS,
);

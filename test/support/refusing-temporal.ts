/** A gRPC server that answers every call with an error, as Temporal does with credentials that it does not know. */
import { createSecureServer, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

/** Not compressed, and of length 0. */
const EMPTY_MESSAGE = Buffer.alloc(5);

interface RefusingServer {
  port: number;
  calls: () => number;
  close: () => void;
}

/** With these a connection is made; what follows needs rights in the namespace. */
export const CONNECTS = ['GetSystemInfo'];

/**
 * Answers each call with a gRPC status, but those whose method is among `accepted`, which get an empty message. With
 * `tls` it also wants a client certificate of its authority.
 */
export async function startRefusingServer(
  status: number,
  tls?: { key: string; cert: string; ca: string },
  accepted: readonly string[] = [],
): Promise<RefusingServer> {
  const server = tls ? createSecureServer({ ...tls, requestCert: true, rejectUnauthorized: true }) : createServer();
  let calls = 0;
  server.on('stream', (stream: ServerHttp2Stream, { ':path': path = '' }) => {
    calls += 1;
    stream.on('error', () => {});
    const headers = { ':status': 200, 'content-type': 'application/grpc' };
    if (accepted.some((method) => path.endsWith(`/${method}`))) {
      stream.respond(headers, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(EMPTY_MESSAGE);
    } else stream.respond({ ...headers, 'grpc-status': String(status) }, { endStream: true });
  });
  server.on('session', (session) => session.on('error', () => {}));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, calls: () => calls, close: () => void server.close() };
}

/** A proxy before a Temporal server that cuts each call after some time, as if it were dead. */
import { connect, constants, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

/** Where it listens, how many calls it has cut, and what ends it. */
export interface CuttingProxy {
  address: string;
  cut: () => number;
  close: () => void;
}

/** Starts one before the server at `host:port`; a call lives at most for a time. */
export async function startCuttingProxy(server: string, callMs: number): Promise<CuttingProxy> {
  const upstream = connect(`http://${server}`);
  upstream.on('error', () => {});
  let cut = 0;
  const forward = (stream: ServerHttp2Stream, { ':authority': _, ...headers }: IncomingHttpHeaders) => {
    const request = upstream.request(headers);
    let trailers: IncomingHttpHeaders = {};
    request.on('error', () => stream.destroy());
    request.on('trailers', (told) => (trailers = told));
    request.on('response', (told) => {
      if (stream.destroyed) return;
      if ('grpc-status' in told) return stream.respond(told, { endStream: true });
      stream.respond(told, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      request.pipe(stream);
    });
    stream.pipe(request);
    const timer = setTimeout(() => {
      cut += 1;
      stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    }, callMs);
    stream.on('error', () => {});
    stream.on('close', () => {
      clearTimeout(timer);
      request.close();
    });
  };
  const proxy = createServer();
  proxy.on('session', (session) => session.on('error', () => {}));
  proxy.on('stream', forward);
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    cut: () => cut,
    close: () => {
      proxy.close();
      upstream.destroy();
    },
  };
}

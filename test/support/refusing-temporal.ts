/** A gRPC server that refuses every call, as Temporal does with credentials that it does not know. */
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

/** A server certificate for localhost and its authority, valid until 2126, for tests alone: nothing trusts them. */
export const LOCALHOST = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIF3fCFrcyQdAads8
H1KoNKvfey1kD4rDAMata6rRl2ShRANCAARCZhSUCzimORuSvbF2nfPfjdeP/6VA
zxd6PQnAmZkUk6ofgFNHWR9mvxfG9nJ4rcFt8yZQZacQbh5OtzwME4nz
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBuzCCAWGgAwIBAgIUIP7jF+atczcP8OgZOsatU3asyPAwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOdGVzdCBhdXRob3JpdHkwIBcNMjYxMTIyMDU1MzE1WhgPMjEy
NjEwMjkwNTUzMTVaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEG
CCqGSM49AwEHA0IABEJmFJQLOKY5G5K9sXad89+N14//pUDPF3o9CcCZmRSTqh+A
U0dZH2a/F8b2cnitwW3zJlBlpxBuHk63PAwTifOjgYkwgYYwGgYDVR0RBBMwEYIJ
bG9jYWxob3N0hwR/AAABMAkGA1UdEwQCMAAwHQYDVR0lBBYwFAYIKwYBBQUHAwEG
CCsGAQUFBwMCMB0GA1UdDgQWBBRaS/T90WuvAga3i2BfNmZgkzt+kDAfBgNVHSME
GDAWgBSts7k8/p06M4KvZpsjzojlGZHa2DAKBggqhkjOPQQDAgNIADBFAiEAhzfC
pf/nXly9O59BV6HIyc6DHIkhuprxCXtI0KXlCNQCIHcS0l3eu6iKuumlMDxcSuM/
sC7HX0pTYxEhgdpXFtYt
-----END CERTIFICATE-----`,
  ca: `-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIULkjlOyvfoIs133IZ9mnYYFUFWccwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOdGVzdCBhdXRob3JpdHkwIBcNMjYxMTIyMDU1MzE1WhgPMjEy
NjEwMjkwNTUzMTVaMBkxFzAVBgNVBAMMDnRlc3QgYXV0aG9yaXR5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEh9nbGbTh6lqCCfdoJynO6RnY0oGzxRTa+XKC73GQ
2cSj0aGjxCH3v/RRtTxDt7zfJTdeontPo39FSh3e6Ddgm6NTMFEwHQYDVR0OBBYE
FK2zuTz+nTozgq9mmyPOiOUZkdrYMB8GA1UdIwQYMBaAFK2zuTz+nTozgq9mmyPO
iOUZkdrYMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgdXnkh2o1
/yjsoBmwu1EQcW2qLZ43d41v9eRgOMam9SUCIQC8TLtMBOgOq0XY1Dl3oNBFj61T
dmaEMM/X94//s9KCPw==
-----END CERTIFICATE-----`,
};

/** How a worker gets its connection to Temporal. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TemporalSettings } from '../../src/config.js';
import { freePort } from '../../src/local/child-process.js';
import { connectTemporal } from '../../src/worker/connection.js';
import type { Logger } from '../../src/worker/logging.js';
import { Authority } from '../support/certificates.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { TlsFront } from '../support/tls-front.js';

let server: TestServer;
beforeAll(async () => {
  server = await connectDevServer();
});
afterAll(() => server.close());

test('a worker that waits for Temporal tries with the certificate that its files have by then', async () => {
  const [servers, expired, renewed] = [new Authority('servers'), new Authority('expired'), new Authority('renewed')];
  const port = await freePort();
  const settingsOf = (authority: Authority): TemporalSettings => {
    const { cert, key } = authority.issue('worker');
    const clientCertPair = { crt: Buffer.from(cert), key: Buffer.from(key) };
    const tls = { serverRootCACertificate: Buffer.from(servers.cert), clientCertPair };
    const { namespace } = server;
    return { address: `localhost:${port}`, namespace, connectionOptions: { address: `localhost:${port}`, tls } };
  };
  let settings = settingsOf(expired);
  let front: TlsFront | undefined;
  // Told after each try in vain.
  const warn = async () => {
    settings = settingsOf(renewed);
    const { address } = server;
    front ??= await TlsFront.start({ address, identity: servers.issue('localhost'), trusted: [renewed.cert], port });
  };
  const connection = await connectTemporal(settings, { warn } as unknown as Logger, () => settings);
  expect(front).toBeDefined();
  await connection.close();
  await front!.close();
});

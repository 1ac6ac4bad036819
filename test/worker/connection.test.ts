/** How a worker gets its connection to Temporal. */
import { once } from 'node:events';
import { createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { expect, test } from 'vitest';
import { readTemporalSettings, type TemporalSettings } from '../../src/config.js';
import { freePort } from '../../src/local/child-process.js';
import { connectTemporal } from '../../src/worker/connection.js';
import type { Logger } from '../../src/worker/logging.js';
import { Authority } from '../support/certificates.js';
import { startConnectProxy } from '../support/connect-proxy.js';
import { connectDevServer } from '../support/dev-server.js';
import { startRefusingServer } from '../support/refusing-temporal.js';
import { TlsFront } from '../support/tls-front.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectDevServer);

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

const UNAUTHENTICATED = 16;
const PERMISSION_DENIED = 7;
const AUTHORITY = new Authority('of localhost');
const LOCALHOST = { ...AUTHORITY.issue('localhost'), ca: AUTHORITY.cert };
const LOCALHOST_CA = { TEMPORAL_TLS_SERVER_CA_CERT_DATA: LOCALHOST.ca };

test.each([
  [UNAUTHENTICATED, 'check TEMPORAL_API_KEY or the client certificate'],
  [PERMISSION_DENIED, 'check TEMPORAL_NAMESPACE'],
])('a worker does not wait where its credentials are answered with status %d', async (status, says) => {
  const refusing = await startRefusingServer(status);
  const address = `127.0.0.1:${refusing.port}`;
  const settings = readTemporalSettings({ TEMPORAL_ADDRESS: address, TEMPORAL_API_KEY: 'k', TEMPORAL_TLS: 'false' });
  await expect(connectTemporal(settings, neverWarns)).rejects.toThrow(says);
  expect(refusing.calls()).toBe(1);
  refusing.close();
});

test.each([
  ['the server wants another certificate', LOCALHOST_CA, 'TEMPORAL_TLS_CLIENT_CERT_'],
  ['it does not trust the server', { TEMPORAL_TLS: 'true' }, 'TEMPORAL_TLS_SERVER_CA_CERT_'],
])('a worker does not wait for ever where %s', async (_, env, says) => {
  const refusing = await startRefusingServer(0, LOCALHOST);
  const settings = readTemporalSettings({ TEMPORAL_ADDRESS: `localhost:${refusing.port}`, ...env });
  // The server may be gone before its alert is read; the next try hears it.
  const warnsOfThat = { warn: () => {} } as unknown as Logger;
  await expect(connectTemporal(settings, warnsOfThat)).rejects.toThrow(says);
  refusing.close();
});

test.each([
  ['speaks no TLS', () => createHttp2Server(), 'TEMPORAL_TLS=false'],
  ['speaks no gRPC', () => createTlsServer(LOCALHOST), 'check TEMPORAL_ADDRESS'],
])('a worker does not wait for ever where the server %s', async (_, create, says) => {
  const other = create().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const address = `localhost:${(other.address() as AddressInfo).port}`;
  const settings = readTemporalSettings({ TEMPORAL_ADDRESS: address, ...LOCALHOST_CA });
  await expect(connectTemporal(settings, neverWarns)).rejects.toThrow(says);
  other.close();
});

test('a worker does not wait for ever where the proxy wants credentials', async () => {
  const proxy = await startConnectProxy(server.address, 407);
  const env = { TEMPORAL_ADDRESS: server.address, TEMPORAL_PROXY: `me:secret@127.0.0.1:${proxy.port}` };
  const refused = connectTemporal(readTemporalSettings(env), neverWarns);
  await expect(refused).rejects.toThrow('check TEMPORAL_PROXY');
  await expect(refused).rejects.not.toThrow('secret');
  await proxy.close();
});

/** The next try would be as much in vain. */
const neverWarns = {
  warn: () => {
    throw new Error('it waits for Temporal');
  },
} as unknown as Logger;

/** Temporal's own server with its authorizer, as the variables of deploy/teams/temporal.env turn it on. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseEnv } from 'node:util';
import { Connection } from '@temporalio/client';
import { stringify } from 'yaml';
import { freePort, startProcess } from '../../src/local/child-process.js';
import { until } from '../support/worker-process.js';

const SERVER_ENV = new URL('../../deploy/teams/temporal.env', import.meta.url);
const KEY_ID = 'test';
const STOP_GRACE_MS = 5_000;

/** A server that asks for a token with each call, and who signs tokens for it. */
export interface AuthorizingServer {
  address: string;
  /** A token with these permissions, such as `shop:write`; without a time it is good for an hour. */
  token: (permissions: readonly string[], expiresInSeconds?: number) => string;
  stop: () => Promise<void>;
}

/** Starts the server on a database in memory. */
export async function startAuthorizingServer(): Promise<AuthorizingServer> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-authority-'));
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: KEY_ID, alg: 'RS256', use: 'sig' };
  const keys = join(folder, 'keys.json');
  await writeFile(keys, JSON.stringify({ keys: [jwk] }));
  const example: Record<string, string | undefined> = parseEnv(await readFile(SERVER_ENV, 'utf8'));
  const env = { ...example, TEMPORAL_JWT_KEY_SOURCE1: pathToFileURL(keys).href };
  const ports = await freePorts(10);
  const config = join(folder, 'server.yaml');
  const dynamicConfig = join(folder, 'dynamic.yaml');
  await writeFile(dynamicConfig, stringify({ 'system.namespaceCacheRefreshInterval': [{ value: '1s' }] }));
  await writeFile(
    config,
    stringify({ ...toConfig(env, ports), dynamicConfigClient: { filepath: dynamicConfig, pollInterval: '60s' } }),
  );
  const server = await startProcess({
    program: process.env['TEMPORAL_SERVER'] ?? 'temporal-server',
    args: ['--config-file', config, 'start'],
    env: { PATH: process.env['PATH'], TEMPORAL_SERVICES: example['TEMPORAL_SERVICES'] },
    logFile: join(folder, 'server.log'),
  });
  const address = `127.0.0.1:${ports[0]}`;
  await until(() => isUp(address), 'the server', server.logTail);
  return {
    address,
    token: (permissions, expiresInSeconds = 3_600) => {
      const exp = Math.floor(Date.now() / 1_000) + expiresInSeconds;
      const parts = [
        { alg: 'RS256', kid: KEY_ID, typ: 'JWT' },
        { sub: 'somebody', permissions, exp },
      ];
      const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
      return `${text}.${sign('RSA-SHA256', Buffer.from(text), privateKey).toString('base64url')}`;
    },
    async stop() {
      await server.stop(STOP_GRACE_MS);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort(undefined, ports));
  return ports;
}

async function isUp(address: string): Promise<boolean> {
  try {
    // The one call that needs no token.
    await (await Connection.connect({ address, connectTimeout: 1_000 })).close();
    return true;
  } catch {
    return false;
  }
}

/** As the image makes it of these variables, but for the database. */
function toConfig(env: Readonly<Record<string, string | undefined>>, ports: readonly number[]): object {
  const sql = {
    pluginName: 'sqlite',
    databaseName: 'default',
    connectAddr: 'localhost',
    connectProtocol: 'tcp',
    connectAttributes: { mode: 'memory', cache: 'private' },
    maxConns: 1,
    maxIdleConns: 1,
  };
  const services = ['frontend', 'internal-frontend', 'history', 'matching', 'worker'];
  const rpcOf = (name: string, i: number) => {
    const rpc = { grpcPort: ports[2 * i], membershipPort: ports[2 * i + 1], bindOnLocalHost: true };
    return [name, { rpc }] as const;
  };
  const hasInternal = env['USE_INTERNAL_FRONTEND'] !== undefined;
  return {
    log: { stdout: true, level: 'error' },
    persistence: {
      defaultStore: 'store',
      visibilityStore: 'visibility',
      numHistoryShards: 1,
      datastores: { store: { sql }, visibility: { sql } },
    },
    global: {
      membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' },
      authorization: {
        jwtKeyProvider: { keySourceURIs: [env['TEMPORAL_JWT_KEY_SOURCE1']], refreshInterval: '1m' },
        permissionsClaimName: 'permissions',
        authorizer: env['TEMPORAL_AUTH_AUTHORIZER'],
        claimMapper: env['TEMPORAL_AUTH_CLAIM_MAPPER'],
      },
    },
    services: Object.fromEntries(services.filter((name) => hasInternal || name !== 'internal-frontend').map(rpcOf)),
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: { enabled: true, initialFailoverVersion: 1, rpcName: 'frontend', rpcAddress: `127.0.0.1:${ports[0]}` },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    ...(hasInternal ? {} : { publicClient: { hostPort: `127.0.0.1:${ports[0]}` } }),
  };
}

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import type { ConfigProblem } from './config-error.js';

/** How to reach Temporal; `connectionOptions` fit `Connection` and `NativeConnection` alike. */
export interface TemporalSettings {
  address: string;
  namespace: string;
  connectionOptions: NativeConnectionOptions;
}

const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';

/** Reads the standard TEMPORAL_* variables and the configuration file that they may name. */
export function readTemporal(env: Record<string, string>): TemporalSettings | ConfigProblem {
  const unreadable = unreadableFile(env);
  if (unreadable) return { variable: unreadable, problem: 'should be the path of a readable file' };
  try {
    const { connectionOptions, namespace } = loadClientConnectConfig({ overrideEnvVars: env });
    checkCertificates(connectionOptions.tls);
    const address = connectionOptions.address ?? DEFAULT_ADDRESS;
    return { address, namespace: namespace ?? DEFAULT_NAMESPACE, connectionOptions: { ...connectionOptions, address } };
  } catch (error) {
    return { variable: 'TEMPORAL_*', problem: `cannot be used: ${firstLine(error)}` };
  }
}

// envconfig takes a configuration file that does not exist for an empty one, and a job for another server.
function unreadableFile(env: Record<string, string>): string | undefined {
  const names = Object.keys(env).filter((name) => /^TEMPORAL_(CONFIG_FILE|TLS_\w+_PATH)$/.test(name));
  return names.find((name) => {
    try {
      accessSync(env[name]!, constants.R_OK);
      return false;
    } catch {
      return true;
    }
  });
}

// The native client takes garbage for an absent certificate authority, or fails only when it connects.
function checkCertificates(tls: NativeConnectionOptions['tls']): void {
  if (typeof tls !== 'object' || tls === null) return;
  const { serverRootCACertificate: ca, clientCertPair: pair } = tls;
  if (ca) readPem('TEMPORAL_TLS_SERVER_CA_CERT_*', () => new X509Certificate(ca));
  if (!pair) return;
  const certificate = readPem('TEMPORAL_TLS_CLIENT_CERT_*', () => new X509Certificate(pair.crt));
  const key = readPem('TEMPORAL_TLS_CLIENT_KEY_*', () => createPrivateKey(Buffer.from(pair.key)));
  if (!certificate.checkPrivateKey(key)) throw new Error('TEMPORAL_TLS_CLIENT_KEY_* is not the key of the certificate');
}

function readPem<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new Error(`${name} is not in PEM format`);
  }
}

// The TOML parser's message goes on with an excerpt of the file, which may hold a key.
function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0]!;
}

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
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

/**
 * Reads the standard TEMPORAL_* variables and the configuration file that they may name; `TEMPORAL_API_KEY_FILE` is our
 * own, and wins over `TEMPORAL_API_KEY`.
 */
export function readTemporal(env: Record<string, string>): TemporalSettings | ConfigProblem[] {
  const unreadable = unreadableFiles(env);
  if (unreadable.length > 0)
    return unreadable.map((variable) => ({ variable, problem: 'should be the path of a readable file' }));
  try {
    const { connectionOptions, namespace } = loadClientConnectConfig({
      overrideEnvVars: { ...env, ...keyInFile(env) },
    });
    checkCertificates(connectionOptions.tls);
    checkApiKey(connectionOptions.apiKey);
    const address = connectionOptions.address ?? DEFAULT_ADDRESS;
    return { address, namespace: namespace ?? DEFAULT_NAMESPACE, connectionOptions: { ...connectionOptions, address } };
  } catch (error) {
    return [{ variable: 'TEMPORAL_*', problem: `cannot be used: ${firstLine(error)}` }];
  }
}

/** Whether nothing is set. */
export function isDefault(temporal: TemporalSettings | ConfigProblem[]): boolean {
  if (Array.isArray(temporal)) return false;
  const { address, namespace, connectionOptions } = temporal;
  const { address: _, ...others } = connectionOptions;
  const isSaid = Object.values(others).some((value) => value !== undefined);
  return address === DEFAULT_ADDRESS && namespace === DEFAULT_NAMESPACE && !isSaid;
}

// envconfig takes a missing configuration file for an empty one: a job would go to another server.
function unreadableFiles(env: Record<string, string>): string[] {
  const names = Object.keys(env).filter((name) => /^TEMPORAL_(CONFIG_FILE|API_KEY_FILE|TLS_\w+_PATH)$/.test(name));
  return names.filter((name) => {
    try {
      accessSync(env[name]!, constants.R_OK);
      return false;
    } catch {
      return true;
    }
  });
}

function keyInFile({ TEMPORAL_API_KEY_FILE: path }: Record<string, string>): Record<string, string> {
  if (path === undefined) return {};
  const key = readFileSync(path, 'utf8').trim();
  if (key === '') throw new Error('TEMPORAL_API_KEY_FILE is empty');
  return { TEMPORAL_API_KEY: key };
}

// The client's own error about a key that no header can hold contains the key.
function checkApiKey(apiKey: unknown): void {
  if (typeof apiKey === 'string' && !/^[\x21-\x7e]+$/.test(apiKey))
    throw new Error('TEMPORAL_API_KEY holds a character that no key has, such as a line break');
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

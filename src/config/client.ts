/** The settings of a client: read without zod, which a service that starts jobs does not install. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { DEFAULT_TASK_QUEUE } from '../contract.js';
import { encodeId, LIMIT } from '../contract/shared.js';
import { ConfigError, type ConfigProblem } from './config-error.js';
import { PayloadKeys, payloadKeysProblem } from './payload-keys.js';

/** The environment's variables; an empty one counts as unset. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The environment of this process, for `npm start`, which passes a part of it to its child processes. */
export const processEnvironment: Environment = process.env;

/** The way to Temporal and the task queue. */
export interface ClientConfig {
  taskQueue: string;
  temporal: TemporalSettings;
  /** The address of Temporal's web UI, for links to it; undefined if nothing names it. */
  webUiUrl: string | undefined;
  /** Whether jobs are shown without their prompts. */
  hidePrompts: boolean;
  /** Whether the environment names a file of payload keys, which a client can't read itself. */
  hasPayloadKeys: boolean;
}

/** What the address of the web UI should be. */
export const WEB_UI_RULE =
  'the http or https address of Temporal’s web UI without credentials, query or fragment, ' +
  'for example https://temporal.example.com';

/** The URL that a text is, if it has one of the protocols. */
export function parseUrl(text: string, protocols: string[]): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return protocols.includes(url.protocol) ? url : undefined;
}

/** The address of a proxy, `http` without a scheme; undefined if it can't be used. */
export function proxyAddress(text: string): string | undefined {
  const address = text.includes('://') ? text : `http://${text}`;
  try {
    const { username, password } = new URL(address);
    decodeURIComponent(username + password);
    return /^https?:/i.test(address) ? address : undefined;
  } catch {
    return undefined;
  }
}

/** An address of the web without credentials, query, fragment and trailing slash. */
export function plainAddress(text: string): string | undefined {
  const url = parseUrl(text, ['http:', 'https:']);
  const isPlain = url !== undefined && !url.username && !url.password && !url.search && !url.hash;
  // The href keeps a question mark or hash that nothing follows.
  return isPlain ? (url.origin + url.pathname).replace(/\/+$/, '') : undefined;
}

/** What a task queue's name should be. */
export const TASK_QUEUE_RULE = `a name of at most ${LIMIT.idBytes} bytes when percent-encoded, not below /_sys/`;

/** Workers lengthen the name, and it becomes a part of a workflow id: Temporal takes no poll of a long one. */
export function taskQueueName(text: string): string | undefined {
  return encodeId(text).length <= LIMIT.idBytes && !text.startsWith('/_sys/') ? text : undefined;
}

/** Whether a text says true or false; undefined for any other. */
function flagOf(text: string): boolean | undefined {
  return { true: true, false: false }[text.toLowerCase()];
}

/** The way to Temporal, the task queue and the web UI; the address of a caller wins. Throws a ConfigError. */
export function readClientConfig(environment: Environment = process.env, address?: string | null): ClientConfig {
  const env = present(environment);
  const problems = problemsOf(() => readTemporal(env, address));
  const read = <T>(variable: string, rule: string, parse: (text: string) => T | undefined): T | undefined => {
    const text = env[variable];
    const value = text === undefined ? undefined : parse(text);
    if (text !== undefined && value === undefined) problems.push({ variable, problem: `should be ${rule}` });
    return value;
  };
  const taskQueue = read('AGENT_JOBS_TASK_QUEUE', TASK_QUEUE_RULE, taskQueueName) ?? DEFAULT_TASK_QUEUE;
  const webUiUrl = read('AGENT_JOBS_WEB_UI_URL', WEB_UI_RULE, plainAddress);
  const hidePrompts = read('AGENT_JOBS_HIDE_PROMPTS', 'true or false', flagOf) ?? false;
  if (problems.length > 0) throw new ConfigError(problems);
  const hasPayloadKeys = env[PAYLOAD_KEYS_VARIABLE] !== undefined;
  return { taskQueue, temporal: readTemporal(env, address), webUiUrl, hidePrompts, hasPayloadKeys };
}

/** The problems that a reader of settings throws. */
export function problemsOf(read: () => unknown): ConfigProblem[] {
  try {
    read();
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [...error.problems];
  }
}

/** Leads this process to a local server, also when it connects again: no other setting of Temporal and no profile. */
export function leadToLocal(address: string): void {
  for (const name of Object.keys(process.env)) if (name.startsWith('TEMPORAL_')) delete process.env[name];
  process.env['TEMPORAL_ADDRESS'] = address;
  process.env['TEMPORAL_CONFIG_FILE'] = devNull;
}

/** Whether the environment, or the profile that it names, says anything of a server. */
export function namesTemporal(environment: Environment = process.env): boolean {
  const env = present(environment);
  try {
    const { connectionOptions, namespace } = readProfile(env);
    return [namespace, ...Object.values(connectionOptions)].some((value) => value !== undefined);
  } catch {
    return true;
  }
}

/** Without the empty ones; the proxies' lower-case names count first, as everywhere. */
export function present(environment: Environment): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    const trimmed = value?.trim();
    if (trimmed) env[name] = trimmed;
  }
  for (const name of ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY']) {
    const lower = env[name.toLowerCase()];
    if (lower) env[name] = lower;
  }
  return env;
}

// Which file holds the keys of payloads: a setting of workers and the command line, `PAYLOAD_KEYS_FILE`.

const PAYLOAD_KEYS_VARIABLE = 'PAYLOAD_KEYS_FILE';

/** The keys that the environment names; undefined without. Throws a ConfigError. */
export function readPayloadKeys(environment: Environment = process.env): PayloadKeys | undefined {
  const path = present(environment)[PAYLOAD_KEYS_VARIABLE];
  if (path === undefined) return undefined;
  const problem = payloadKeysProblem(path);
  if (problem !== null) throw new ConfigError([{ variable: PAYLOAD_KEYS_VARIABLE, problem }]);
  return new PayloadKeys(path);
}

/** How to reach Temporal; `connectionOptions` fit `Connection` and `NativeConnection` alike. */
export interface TemporalSettings {
  address: string;
  namespace: string;
  connectionOptions: NativeConnectionOptions;
}

const TEMPORAL_PROXY_RULE = 'should be host:port, or http://user:password@host:port';
const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';
/** What Temporal's clients take: no URL, and IPv6 in brackets. */
const ADDRESS = /^(\[[\da-f.:]+\]|[^\s:/]+)(:\d+)?$/i;

/**
 * Reads the standard TEMPORAL_* variables and the configuration file that they may name. Two are our own:
 * `TEMPORAL_API_KEY_FILE`, which wins over `TEMPORAL_API_KEY`, and `TEMPORAL_PROXY`. An address that is given wins over
 * theirs. Throws a ConfigError.
 */
export function readTemporal(env: Record<string, string>, given?: string | null): TemporalSettings {
  const unreadable = unreadableFiles(env);
  if (unreadable.length > 0)
    throw new ConfigError(
      unreadable.map((variable) => ({ variable, problem: 'should be the path of a readable file' })),
    );
  const { connectionOptions, namespace = DEFAULT_NAMESPACE } = loadTemporal(env);
  const address = given ?? connectionOptions.address ?? DEFAULT_ADDRESS;
  if (!ADDRESS.test(address)) {
    const problem = 'should be host:port without a scheme, for example 127.0.0.1:7233';
    throw new ConfigError([{ variable: given == null ? 'TEMPORAL_ADDRESS' : 'address', problem }]);
  }
  const proxy = proxyTo(env['TEMPORAL_PROXY']);
  if (proxy === null) throw new ConfigError([{ variable: 'TEMPORAL_PROXY', problem: TEMPORAL_PROXY_RULE }]);
  return { address, namespace, connectionOptions: { ...connectionOptions, address, ...(proxy && { proxy }) } };
}

function loadTemporal(env: Record<string, string>): ReturnType<typeof loadClientConnectConfig> {
  try {
    const loaded = readProfile(env);
    checkCertificates(loaded.connectionOptions.tls);
    checkApiKey(loaded.connectionOptions.apiKey);
    return loaded;
  } catch (error) {
    throw new ConfigError([{ variable: 'TEMPORAL_*', problem: `cannot be used: ${firstLine(error)}` }]);
  }
}

/** An empty file would be an error to envconfig; the null device is how a process goes without the user's profile. */
function readProfile(env: Record<string, string>): ReturnType<typeof loadClientConnectConfig> {
  const disableFile = env['TEMPORAL_CONFIG_FILE'] === devNull;
  return loadClientConnectConfig({ overrideEnvVars: { ...env, ...keyInFile(env) }, disableFile });
}

/** Undefined without a proxy, null if it can't be one: the connection to it is never encrypted. */
function proxyTo(text: string | undefined): NativeConnectionOptions['proxy'] | null {
  if (text === undefined) return undefined;
  const address = proxyAddress(text);
  const url = address === undefined ? null : new URL(address);
  if (url?.protocol !== 'http:') return null;
  const [username, password] = [url.username, url.password].map(decodeURIComponent) as [string, string];
  const basicAuth = { username, password };
  const targetHost = `${url.hostname}:${url.port || '80'}`;
  return { type: 'http-connect', targetHost, ...(username && { basicAuth }) };
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

/**
 * All wrong settings in one error, and warnings of settings that expose a key. The texts of single settings: fields.ts.
 */
import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { AgentJobsError } from '../contract/errors.js';

const READABLE_BY_ALL = 0o004;

/** One setting that is missing or wrong; `problem` never holds its value. */
export interface ConfigProblem {
  variable: string;
  problem: string;
}

/** All settings that are missing or wrong, in one readable message. */
export class ConfigError extends AgentJobsError {
  override readonly name = 'ConfigError';
  override readonly code = 'CONFIG';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const width = Math.max(...problems.map(({ variable }) => variable.length));
    const lines = problems.map(({ variable, problem }) => `  ${variable.padEnd(width)}  ${problem}`);
    const title = problems.length === 1 ? '1 setting is wrong:' : `${problems.length} settings are wrong:`;
    super([title, ...lines].join('\n'));
    this.problems = problems;
  }
}

/** The error for an address at which nothing can listen: it says which setting or option names it. */
export function cannotListen(setting: string, error: unknown): Error {
  return new Error(`${setting} cannot be used: ${error instanceof Error ? error.message : String(error)}`);
}

interface Upstream {
  baseUrl: string;
  keys: { adminApiKeyFile?: string; projectKeysFile?: string };
  unusableProxies: readonly string[];
}

const PROXY_RULE = 'it should be the http or https address of a proxy, for example http://proxy.example.com:3128';

/** Warns of settings that show the key to others or can't be used; never with a value. */
export function upstreamWarnings({ baseUrl, keys, unusableProxies }: Upstream): string[] {
  const { protocol, hostname } = new URL(baseUrl);
  const isOpen = protocol === 'http:' && !isLoopback(hostname);
  const files = { ADMIN_API_KEY_FILE: keys.adminApiKeyFile, PROJECT_KEYS_FILE: keys.projectKeysFile };
  return [
    ...(isOpen ? ['UPSTREAM_BASE_URL is http: keys and prompts cross the network in clear text'] : []),
    ...unusableProxies.map((name) => `${name} is not used: ${PROXY_RULE}`),
    ...Object.entries(files).flatMap(([name, path]) => readableByAllWarning(name, path)),
  ];
}

/** Warns of a file of secrets that every user of the machine can read. */
export function readableByAllWarning(variable: string, path: string | undefined): string[] {
  if (path === undefined || !isReadableByAll(path)) return [];
  return [`${variable} can be read by every user of this machine: take that from it (chmod o-r)`];
}

/** Whether a host is this machine, as far as its name tells. */
export function isLoopback(host: string): boolean {
  return ['localhost', '::1', '[::1]'].includes(host) || (isIP(host) === 4 && host.startsWith('127.'));
}

function isReadableByAll(path: string): boolean {
  // Windows has no such mode, and Node makes one up.
  if (process.platform === 'win32') return false;
  try {
    return (statSync(path).mode & READABLE_BY_ALL) !== 0;
  } catch {
    return false; // the reader of the file reports that
  }
}

/** All wrong settings in one error, and warnings of the way to the upstream. The texts of settings: fields.ts. */
import { isIP } from 'node:net';
import { AgentJobsError } from '../contract/errors.js';

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
  return new Error(`${setting} cannot be used: ${messageOf(error)}`);
}

/** The message of what was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const PROXY_RULE = 'it should be the http or https address of a proxy, for example http://proxy.example.com:3128';

/** Warns of an upstream to which keys and prompts go unencrypted, and of proxies that can't be used. */
export function upstreamWarnings({ baseUrl, unusableProxies }: { baseUrl: string; unusableProxies: string[] }) {
  const { protocol, hostname } = new URL(baseUrl);
  const isOpen = protocol === 'http:' && !isLoopback(hostname);
  return [
    ...(isOpen ? ['UPSTREAM_BASE_URL is http: keys and prompts cross the network in clear text'] : []),
    ...unusableProxies.map((name) => `${name} is not used: ${PROXY_RULE}`),
  ];
}

/** Whether a host is this machine, by its name. */
export function isLoopback(host: string): boolean {
  return ['localhost', '::1', '[::1]'].includes(host) || (isIP(host) === 4 && host.startsWith('127.'));
}

/** The settings of a client: read without zod, which a service that starts jobs does not install. */
import { DEFAULT_TASK_QUEUE } from '../contract.js';
import { ConfigError } from './config-error.js';
import { isDefault, readTemporal, type TemporalSettings } from './temporal.js';

/** The environment's variables; an empty one counts as unset. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The way to Temporal and the task queue. */
export interface ClientConfig {
  taskQueue: string;
  temporal: TemporalSettings;
  /** Where Temporal's web UI is, for the links to it; undefined where its usual place will do. */
  webUiUrl: string | undefined;
  /** Whether jobs are shown without their prompts. */
  hidePrompts: boolean;
  /** Whether the environment names a file of payload keys, which a client can't read itself. */
  hasPayloadKeys: boolean;
}

/** What the name of a task queue should be. */
export const TASK_QUEUE_RULE = 'a name of 1 to 200 characters';

const MAX_TASK_QUEUE_CHARACTERS = 200;

/** The name, or undefined where none can be like it. */
export function taskQueueOf(text: string): string | undefined {
  return text.length <= MAX_TASK_QUEUE_CHARACTERS ? text : undefined;
}

const WEB_UI_RULE =
  'the http or https address of Temporal’s web UI without credentials, query or fragment, ' +
  'for example https://temporal.example.com';

/** The URL that a text is, where it has one of the protocols. */
export function parseUrl(text: string, protocols: string[]): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return protocols.includes(url.protocol) ? url : undefined;
}

/** An address of the web without credentials, query, fragment and trailing slash. */
export function plainAddress(text: string): string | undefined {
  const url = parseUrl(text, ['http:', 'https:']);
  const isPlain = url !== undefined && !url.username && !url.password && !url.search && !url.hash;
  return isPlain ? url.href.replace(/\/+$/, '') : undefined;
}

/** The way to Temporal, the task queue and the web UI, for starters and the CLI; throws a ConfigError. */
export function readClientConfig(environment: Environment = process.env): ClientConfig {
  const env = present(environment);
  const taskQueue = taskQueueOf(env['AGENT_JOBS_TASK_QUEUE'] ?? DEFAULT_TASK_QUEUE);
  const temporal = readTemporal(env);
  const problems = Array.isArray(temporal) ? temporal : [];
  if (taskQueue === undefined)
    problems.push({ variable: 'AGENT_JOBS_TASK_QUEUE', problem: `should be ${TASK_QUEUE_RULE}` });
  const webUi = env['AGENT_JOBS_WEB_UI_URL'];
  const webUiUrl = webUi === undefined ? undefined : plainAddress(webUi);
  if (webUi !== undefined && webUiUrl === undefined)
    problems.push({ variable: 'AGENT_JOBS_WEB_UI_URL', problem: `should be ${WEB_UI_RULE}` });
  const hidden = env['AGENT_JOBS_HIDE_PROMPTS'] ?? 'false';
  if (!/^(true|false)$/i.test(hidden))
    problems.push({ variable: 'AGENT_JOBS_HIDE_PROMPTS', problem: 'should be true or false' });
  if (Array.isArray(temporal) || taskQueue === undefined || problems.length > 0) throw new ConfigError(problems);
  const flags = { hidePrompts: /^true$/i.test(hidden), hasPayloadKeys: env['PAYLOAD_KEYS_FILE'] !== undefined };
  return deepFreeze({ taskQueue, temporal, webUiUrl, ...flags });
}

/** Whether the user's Temporal profile, in its usual place, sets anything. */
export function hasTemporalProfile(environment: Environment = process.env): boolean {
  const entries = Object.entries(present(environment)).filter(([name]) => !name.startsWith('TEMPORAL_'));
  return !isDefault(readTemporal(Object.fromEntries(entries)));
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

/** Settings are read once and change no more. */
export function deepFreeze<T extends object>(value: T): T {
  for (const child of Object.values(value)) {
    if (typeof child === 'object' && child !== null && !ArrayBuffer.isView(child)) deepFreeze(child as object);
  }
  return Object.freeze(value);
}

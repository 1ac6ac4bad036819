/** The fields of the schemas: each reads one setting, and says in an error what it should be. */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import ms from 'ms';
import type { StringValue } from 'ms';
import { z } from 'zod';
import { parseProjectKeys } from './project-files.js';
import { parseUrl, plainAddress, proxyAddress, TASK_QUEUE_RULE, taskQueueOf, WEB_UI_RULE } from './client.js';

/** An address at which a server of ours listens; a `host` of an IPv6 address has no brackets. */
export interface ListenAddress {
  host: string;
  port: number;
}

const MAX_UPSTREAM_TIMEOUT_MS = 20_000;
const MAX_WAIT_MS = 3_600_000;

/** A setting that is a string of the environment, read by `read`, which returns undefined for a wrong value. */
function field<T>(shouldBe: string, read: (text: string) => T | undefined) {
  return z.string({ error: `is missing; it should be ${shouldBe}` }).transform((text, context): T => {
    const value = read(text);
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message: `should be ${shouldBe}` });
    return z.NEVER;
  });
}

/** The address that a text is; undefined where it is none. */
function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port > 65_535) return undefined;
  // All addresses: a system without IPv6 has no place to listen at by that name.
  return { host: host === '::' && !hasIpv6() ? '0.0.0.0' : host, port };
}

function hasIpv6(): boolean {
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ family }) => family === 'IPv6'));
}

function parsePositive(text: string): number | undefined {
  const value = Number(text);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

function parseWholeNumber(text: string): number | undefined {
  const value = parsePositive(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** In milliseconds. */
function parseDuration(text: string, maxMs: number): number | undefined {
  const duration = text.length <= 100 ? ms(text as StringValue) : undefined;
  return duration !== undefined && duration > 0 && duration <= maxMs ? Math.ceil(duration) : undefined;
}

/** A list of names or numbers with commas or spaces between them. */
function parseList(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((part) => part !== ''))];
}

/** Without white space around it, nor a byte order mark. */
export function readSettingsFile(path: string): string {
  return readFileSync(path, 'utf8').trim();
}

function readable(path: string): string | undefined {
  try {
    readFileSync(path);
    return path;
  } catch {
    return undefined;
  }
}

function hasProjectKeys(path: string): boolean {
  try {
    parseProjectKeys(readSettingsFile(path));
    return true;
  } catch {
    return false;
  }
}

export const taskQueueField = field(TASK_QUEUE_RULE, taskQueueOf);

/** The upstream's address without a trailing slash. */
export const baseUrlField = field(
  'the http or https address of the upstream without credentials, query or fragment, ' +
    'for example https://api.example.com',
  plainAddress,
);

export const webUiField = field(WEB_UI_RULE, plainAddress);

export const keyField = field('the key itself: visible ASCII characters without spaces', (text) =>
  /^[\x21-\x7e]+$/.test(text) ? text : undefined,
);
export const keyFileField = field('the path of a readable file that holds the key', readable);
export const projectKeysFileField = field(
  'the path of a readable file that holds a JSON object of projectId to key',
  (path) => (hasProjectKeys(path) ? path : undefined),
);

export const callerKeysFileField = field('the path of a readable file that holds the keys of callers', readable);

export const upstreamTimeoutField = field('a duration above 0 and at most 20 seconds, for example 15 seconds', (text) =>
  parseDuration(text, MAX_UPSTREAM_TIMEOUT_MS),
);
export const waitField = field('a duration above 0 and at most 1 hour, for example 5 minutes', (text) =>
  parseDuration(text, MAX_WAIT_MS),
);

export const positiveNumberField = field('a number above 0', parsePositive);
export const wholeNumberField = field('a whole number above 0', parseWholeNumber);

/** The same, or one word. */
export function wholeNumberOr<W extends string>(word: W) {
  return field(`a whole number above 0, or ${word}`, (text) => (text === word ? word : parseWholeNumber(text)));
}

const isoTime = z.iso.datetime({ offset: true });

/** A moment, as ISO 8601 in UTC with milliseconds. */
export const timeField = field('a time with its zone, for example 2026-07-01T12:30:00Z', (text) =>
  isoTime.safeParse(text).success ? new Date(text).toISOString() : undefined,
);

/** These say more than "not now": 401 and 403 wait for a key, 404 says that the job is not there, 429 is obeyed. */
const TOLD_APART = ['401', '403', '404', '429'];

export const statusListField = field(
  `a list of 4xx and 5xx statuses, for example 409,503, without ${TOLD_APART.join(', ')}`,
  (text) => {
    const statuses = parseList(text);
    const isUsable = (status: string) => /^[45]\d\d$/.test(status) && !TOLD_APART.includes(status);
    return statuses.every(isUsable) ? statuses.map(Number) : undefined;
  },
);

/** Null where it can't be used: platforms set these variables for all programs, and one must not end a worker. */
export const proxyField = z.string().transform((text) => proxyAddress(text) ?? null);
export const webhooksProxyField = field('the address of an HTTP proxy, for example proxy:3128', proxyAddress);
export const noProxyField = field('a list of hosts', (text) => text);

export const snapshotsUrlField = field('file:///dir or s3://bucket/prefix', (text) => {
  const url = parseUrl(text, ['file:', 's3:']);
  if (url === undefined || url.search || url.hash || url.username) return undefined;
  const isUsable = url.protocol === 'file:' ? url.host === '' && text.startsWith('file:///') : url.host !== '';
  return isUsable ? text.replace(/([^/:])\/+$/, '$1') : undefined;
});

export const flagField = field('true or false', (text) => ({ true: true, false: false })[text.toLowerCase()]);

export const listenAddressField = field('host:port, for example 127.0.0.1:8080 or [::]:8080', parseListenAddress);

const ROLES = ['jobs', 'exports'] as const;
/** What a worker process serves: the jobs, the export activities, or both. */
export type WorkerRole = (typeof ROLES)[number];

export const rolesField = field(
  'jobs, exports, or both with a comma between them',
  (text): WorkerRole[] | undefined => {
    const names = parseList(text);
    const roles = ROLES.filter((role) => names.includes(role));
    return roles.length === names.length && roles.length > 0 ? roles : undefined;
  },
);

export const deploymentField = field('a name of 1 to 100 letters, digits, - and _', (text) =>
  /^[\w-]{1,100}$/.test(text) ? text : undefined,
);
export const buildIdField = field('1 to 100 letters, digits, and . _ + -', (text) =>
  /^[\w.+-]{1,100}$/.test(text) ? text : undefined,
);

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;
/** From the most detailed level to errors alone. */
export type LogLevel = (typeof LEVELS)[number];

export const logLevelField = field(`one of ${LEVELS.join(', ')}`, (text) =>
  LEVELS.find((level) => level === text.toLowerCase()),
);

const FORMATS = ['json', 'text'] as const;
/** JSON for machines, text for a terminal. */
export type LogFormat = (typeof FORMATS)[number];

export const logFormatField = field(`${FORMATS.join(' or ')}`, (text) =>
  FORMATS.find((format) => format === text.toLowerCase()),
);

/** How single settings, and files of projects, are read. An error says what one should be, and never its value. */
import { networkInterfaces } from 'node:os';
import ms from 'ms';
import type { StringValue } from 'ms';
import { z } from 'zod';
import { UNLIMITED, type WriteLimit } from '../contract/request-queue.js';
import { TERMINAL_STATUSES, type TerminalStatus } from '../contract/words.js';
import { isObject, statusWord } from '../contract/shared.js';
import { parseUrl, plainAddress, proxyAddress } from './client.js';
import { fileProblem, parseJson } from './settings-file.js';

/** Where a server of ours listens; a `host` of an IPv6 address has no brackets. */
export interface ListenAddress {
  host: string;
  port: number;
}

/** A setting that is a string of the environment, read by `read`, which returns undefined for a wrong value. */
export function field<T>(shouldBe: string, read: (text: string) => T | undefined) {
  return z.string({ error: `is missing; it should be ${shouldBe}` }).transform((text, context): T => {
    const value = read(text);
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message: `should be ${shouldBe}` });
    return z.NEVER;
  });
}

/** A text of a certain form. */
export function textField(shouldBe: string, form: RegExp) {
  return field(shouldBe, (text) => (form.test(text) ? text : undefined));
}

/** One of some words; capitals count as small letters. */
export function wordField<W extends string>(...words: readonly W[]) {
  const shouldBe = words.length > 2 ? `one of ${words.join(', ')}` : words.join(' or ');
  return field(shouldBe, (text) => words.find((word) => word === text.toLowerCase()));
}

/** A duration in milliseconds. */
export function durationField(max: StringValue, example: string) {
  return field(`a duration above 0 and at most ${max}, for example ${example}`, (text) => {
    const duration = text.length <= 100 ? ms(text as StringValue) : undefined;
    return duration !== undefined && duration > 0 && duration <= ms(max) ? Math.ceil(duration) : undefined;
  });
}

/** A list of names or numbers with commas or spaces between them. */
function parseList(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter((part) => part !== ''))];
}

function parsePositive(text: string): number | undefined {
  const value = Number(text);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

function parseWholeNumber(text: string): number | undefined {
  const value = parsePositive(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** A number above 0. */
export const positiveNumberField = field('a number above 0', parsePositive);
/** A whole number above 0. */
export const wholeNumberField = field('a whole number above 0', parseWholeNumber);

/** A whole number that may be 0. */
export const countField = field('a whole number, or 0 for none', (text) => (text === '0' ? 0 : parseWholeNumber(text)));

/** A whole number, or one word. */
export function wholeNumberOr<W extends string>(word: W) {
  return field(`a whole number above 0, or ${word}`, (text) => (text === word ? word : parseWholeNumber(text)));
}

/** True or false. */
export const flagField = wordField('true', 'false').transform((word) => word === 'true');

function addressField(of: string, example: string) {
  const form = `the http or https address of ${of} without credentials, query or fragment`;
  return field(`${form}, for example ${example}`, plainAddress);
}

/** The upstream's address without a trailing slash. */
export const baseUrlField = addressField('the upstream', 'https://api.example.com');

/** The address at which callers reach `serve`, without a trailing slash. */
export const publicUrlField = addressField('this server for its callers', 'https://example.com/agent-jobs');

/** Origins as browsers send them. `null` is that of any page without an address. */
export const originsField = field(
  'a list of origins such as https://app.example.com,app://bundle, and none of them * or null',
  (text) => {
    const isOrigin = (origin: string) =>
      /^[a-z][a-z\d+.-]*:\/\/[^\s/?#*@]+$/.test(origin) &&
      (!/^https?:/.test(origin) || parseUrl(origin, ['http:', 'https:'])?.origin === origin);
    const origins = parseList(text);
    return origins.every(isOrigin) ? origins : undefined;
  },
);

/** The path of a file that can be read and holds what it should. */
export function fileField(shouldHold: string, parse: (text: string) => unknown = () => {}) {
  const isGood = (path: string) => fileProblem(path, parse) === null;
  return field(`the path of a readable file that holds ${shouldHold}`, (path) => (isGood(path) ? path : undefined));
}

const PROJECT_SHOWN_CHARS = 100;

const writeLimit = z
  .custom<WriteLimit>(
    (given) => given === UNLIMITED || (Number.isSafeInteger(given) && (given as number) > 0),
    `should be a whole number above 0, or "${UNLIMITED}"`,
  )
  .optional();
// A misspelt field would be a budget that is not kept.
const projectBudget = z.strictObject(
  { createsPerHour: writeLimit, createsPerDay: writeLimit, messagesPerHour: writeLimit, messagesPerDay: writeLimit },
  'should be an object with createsPerHour, createsPerDay, messagesPerHour or messagesPerDay, and no other field',
);

/** What the upstream takes from a project in any hour and day; what is absent has no limit of its own. */
export type ProjectBudget = z.output<typeof projectBudget>;

/** Reads the text of PROJECT_KEYS_FILE: an object of projectId → key. */
export function parseProjectKeys(text: string): Map<string, string> {
  return parseByProject(text, z.string('should be a key').trim());
}

/** Reads the text of PROJECT_BUDGETS_FILE: an object of projectId → budget. */
export function parseProjectBudgets(text: string): Map<string, ProjectBudget> {
  return parseByProject(text, projectBudget);
}

/** Not a `z.record`, which leaves a project of the name `__proto__` out. */
function parseByProject<T>(text: string, schema: z.ZodType<T>): Map<string, T> {
  const projects = parseJson(text);
  if (!isObject(projects)) throw new Error('it should hold a JSON object by projectId');
  return new Map(Object.entries(projects).map(([projectId, value]) => [projectId, parsed(projectId, value, schema)]));
}

function parsed<T>(projectId: string, value: unknown, schema: z.ZodType<T>): T {
  const { data, error } = schema.safeParse(value);
  if (!error) return data;
  const { path, message } = error.issues[0]!;
  const place = [`project ${JSON.stringify(projectId.slice(0, PROJECT_SHOWN_CHARS))}`, ...path.map(String)].join(', ');
  throw new Error(`${place}: ${message}`);
}

/** Reads the text of ADMIN_API_KEY_FILE. An empty file is one that is being written, or a mistake. */
export function parseKey(text: string): string {
  if (text === '') throw new Error('it is empty');
  return text;
}

/** The path of a file with the upstream's key. */
export const keyFileField = fileField('the key', parseKey);

/** The path of a file with the keys of projects. */
export const projectKeysFileField = fileField('a JSON object of projectId to key', parseProjectKeys);

/** What is wrong with a file of budgets is said, too: it holds no secret. */
export const projectBudgetsFileField = z.string().transform((path, context): string => {
  const problem = fileProblem(path, parseProjectBudgets);
  if (problem === null) return path;
  context.addIssue({ code: 'custom', message: `${path}: ${problem}` });
  return z.NEVER;
});

const isoTime = z.iso.datetime({ offset: true });

/** A moment, as ISO 8601 in UTC with milliseconds. */
export const timeField = field('a time with its zone, for example 2026-07-01T12:30:00Z', (text) =>
  isoTime.safeParse(text).success ? new Date(text).toISOString() : undefined,
);

/** These have a meaning of their own. */
const OWN_MEANING = ['401', '403', '404', '429'];

/** Statuses of the upstream that count as a 429. */
export const statusListField = field(
  `a list of 4xx and 5xx statuses, for example 409,503, without ${OWN_MEANING.join(', ')}`,
  (text) => {
    const statuses = parseList(text);
    const isUsable = (status: string) => /^[45]\d\d$/.test(status) && !OWN_MEANING.includes(status);
    return statuses.every(isUsable) ? statuses.map(Number) : undefined;
  },
);

const NAMED_STATUSES = ['active', ...TERMINAL_STATUSES];

/** Further statuses of the upstream, each with the end that it means. */
export const endStatusesField = field(
  'a list such as cancelled=failed,done=completed, each word once and none of the interface',
  (text) => {
    const entries = text.split(',').map((entry) => entry.split('=').map(statusWord));
    const isValid = ([word = '', end = '', ...more]: string[]) =>
      word !== '' && !NAMED_STATUSES.includes(word) && isEnd(end) && more.length === 0;
    const ends = new Map(entries as [string, TerminalStatus][]);
    return entries.every(isValid) && ends.size === entries.length ? ends : undefined;
  },
);

function isEnd(word: string): word is TerminalStatus {
  return (TERMINAL_STATUSES as readonly string[]).includes(word);
}

/** Null if it can't be used: platforms set these variables for all programs, and a wrong one must not end a worker. */
export const standardProxyField = z.string().transform((text) => proxyAddress(text) ?? null);

/** The address of a proxy. */
export const proxyField = field('the address of an HTTP proxy, for example proxy:3128', proxyAddress);

/** The folder or bucket of the snapshots. */
export const snapshotsUrlField = field('file:///dir or s3://bucket/prefix', (text) => {
  const url = parseUrl(text, ['file:', 's3:']);
  if (url === undefined || url.search || url.hash || url.username) return undefined;
  const isUsable = url.protocol === 'file:' ? url.host === '' && text.startsWith('file:///') : url.host !== '';
  return isUsable ? text.replace(/([^/:])\/+$/, '$1') : undefined;
});

/** An address at which a server of ours listens. */
export const listenAddressField = field('host:port, for example 127.0.0.1:8080 or [::]:8080', (text) => {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port > 65_535) return undefined;
  // All addresses: a system without IPv6 has no place to listen at by that name.
  return { host: host === '::' && !hasIpv6() ? '0.0.0.0' : host, port };
});

function hasIpv6(): boolean {
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ family }) => family === 'IPv6'));
}

const ROLES = ['jobs', 'exports'] as const;
/** What a worker process serves: the jobs, the export activities, or both. */
export type WorkerRole = (typeof ROLES)[number];

/** The roles of a worker. */
export const rolesField = field('jobs, exports, or both with a comma between them', (text) => {
  const names = parseList(text);
  const roles = ROLES.filter((role) => names.includes(role));
  return roles.length === names.length && roles.length > 0 ? roles : undefined;
});

/** How single settings are read; each says in an error what it should be, and never its value. */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import ms from 'ms';
import type { StringValue } from 'ms';
import { z } from 'zod';
import { parseUrl, plainAddress, proxyAddress } from './client.js';
import { parseProjectBudgets, parseProjectKeys } from './project-files.js';

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

export const positiveNumberField = field('a number above 0', parsePositive);
export const wholeNumberField = field('a whole number above 0', parseWholeNumber);

/** A whole number, or one word. */
export function wholeNumberOr<W extends string>(word: W) {
  return field(`a whole number above 0, or ${word}`, (text) => (text === word ? word : parseWholeNumber(text)));
}

export const flagField = wordField('true', 'false').transform((word) => word === 'true');

/** The upstream's address without a trailing slash. */
export const baseUrlField = field(
  'the http or https address of the upstream without credentials, query or fragment, ' +
    'for example https://api.example.com',
  plainAddress,
);

/** The path of a file that can be read and holds what it should. */
export function fileField(shouldHold: string, parse: (text: string) => unknown = () => {}) {
  return field(`the path of a readable file that holds ${shouldHold}`, (path) => {
    try {
      parse(readFileSync(path, 'utf8').trim());
      return path;
    } catch {
      return undefined;
    }
  });
}

export const projectKeysFileField = fileField('a JSON object of projectId to key', parseProjectKeys);

/** What is wrong with a file of budgets is said, too: it holds no secret. */
export const projectBudgetsFileField = z.string().transform((path, context): string => {
  try {
    parseProjectBudgets(readFileSync(path, 'utf8').trim());
    return path;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const problem = code === undefined ? message : `it cannot be read (${code})`;
    context.addIssue({ code: 'custom', message: `${path}: ${problem}` });
    return z.NEVER;
  }
});

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

/** Null if it can't be used: platforms set these variables for all programs, and a wrong one must not end a worker. */
export const proxyField = z.string().transform((text) => proxyAddress(text) ?? null);

export const snapshotsUrlField = field('file:///dir or s3://bucket/prefix', (text) => {
  const url = parseUrl(text, ['file:', 's3:']);
  if (url === undefined || url.search || url.hash || url.username) return undefined;
  const isUsable = url.protocol === 'file:' ? url.host === '' && text.startsWith('file:///') : url.host !== '';
  return isUsable ? text.replace(/([^/:])\/+$/, '$1') : undefined;
});

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

export const rolesField = field('jobs, exports, or both with a comma between them', (text) => {
  const names = parseList(text);
  const roles = ROLES.filter((role) => names.includes(role));
  return roles.length === names.length && roles.length > 0 ? roles : undefined;
});

/** Decides what an exchange on the wire means to the caller. */
import { MAX_RETRY_AFTER_MS } from '../contract.js';
import { cutToBytes } from '../contract/shared.js';
import type { WriteOutcome } from '../contract/write-outcome.js';
import { ReadFailedError, RejectedError } from './errors.js';
import { type CallContext, type ExchangeResult, isOk } from './exchange.js';
import { InvalidResponseError, readCreatedJob, readJobRecord } from './schema.js';
import type { EndStatuses } from './shown-job.js';

/** What the settings say of answers to writes. */
interface AnswerSettings {
  /** Statuses that the operator vouches are answered before a write is accepted. */
  throttled: readonly number[];
  ends: EndStatuses;
}

/** What became of a create. A 2xx without a usable job is in doubt: one may exist. */
export function createOutcome(
  exchange: ExchangeResult,
  context: CallContext,
  { throttled, ends }: AnswerSettings,
): WriteOutcome {
  if (!isOk(exchange.status)) return failedWrite(exchange, context, throttled);
  if (exchange.error) return inDoubt(`upstream answered ${exchange.status}, but ${exchange.error.message}`);
  try {
    const { id, ...shown } = readCreatedJob(exchange.body, ends);
    return { kind: 'accepted', jobId: id, ...shown };
  } catch (error) {
    return inDoubt(reasonOf(error));
  }
}

/** What became of a message: the 2xx is proof, unless it came before the last byte had left. */
export function messageOutcome(
  exchange: ExchangeResult,
  context: CallContext,
  { jobId, throttled, ends }: AnswerSettings & { jobId: string },
): WriteOutcome {
  if (!isOk(exchange.status)) return failedWrite(exchange, context, throttled);
  const shown = exchange.error ? null : recordIn(exchange.body, jobId, ends);
  // The answer came without the whole message: from a sign-in page, or a gateway that asks no upstream.
  if (shown === null && !exchange.requestIsWhole)
    return inDoubt(`upstream answered ${exchange.status} before it had all`);
  return { kind: 'accepted', jobId, ...(shown ?? { job: null }) };
}

function recordIn(body: Uint8Array, jobId: string, ends: EndStatuses): ReturnType<typeof readJobRecord> | null {
  try {
    return readJobRecord(body, jobId, ends);
  } catch (error) {
    reasonOf(error);
    return null;
  }
}

/** What a read brought, made by `parse`; throws ReadFailedError, or RejectedError for the statuses named. */
export function readOutcome<T>(
  exchange: ExchangeResult,
  context: CallContext,
  { parse, isRejection }: { parse: (body: Uint8Array) => T; isRejection: (status: number) => boolean },
): T {
  const { status, error } = exchange;
  const retryAfterMs = parseRetryAfter(exchange.retryAfter, exchange.date);
  const failed = (reason: string) => new ReadFailedError(message(reason, context), status, retryAfterMs, reason);
  if (status !== undefined && isRejection(status)) {
    const reason = `upstream answered ${status}`;
    throw new RejectedError(message(reason, context), status, textOfRejection(exchange, context), reason);
  }
  if (status !== undefined && !isOk(status)) throw failed(`upstream answered ${status}`);
  if (error) throw failed(error.message);
  try {
    return parse(exchange.body);
  } catch (error) {
    throw failed(reasonOf(error));
  }
}

/**
 * A rejection: 3xx, which is never followed, or 4xx other than 408 (may have been accepted) and 429 (not for now). A
 * 303 rejects a read alone: after a write it is in doubt.
 */
export function isRejection(status: number): boolean {
  return status >= 300 && status < 500 && status !== 408 && status !== 429;
}

/** Every class that `onResponse` may get, one for each request. */
export const RESPONSE_CLASSES = [
  '2xx',
  '3xx',
  '401',
  '403',
  '4xx', // The others.
  '429',
  '5xx',
  'notDelivered', // No connection, or the request was not handed over whole.
  'timeout',
  'reset',
  'malformed', // A 2xx whose body can't be believed, or no HTTP at all.
  'aborted', // By the caller's signal.
] as const;
type ResponseClass = (typeof RESPONSE_CLASSES)[number];

/** The class of an exchange; `isReadable` says whether the body of a 2xx was of use. */
export function responseClass({ status, error, requestIsWhole }: ExchangeResult, isReadable: boolean): ResponseClass {
  if (status === 401 || status === 403 || status === 429) return `${status}`;
  if (status !== undefined && status >= 300) return CLASS_OF_HUNDREDS[Math.floor(status / 100)] ?? 'malformed';
  if (isReadable) return '2xx';
  if (error === null) return 'malformed';
  if (error.kind === 'aborted') return 'aborted';
  const { kind } = error;
  return requestIsWhole && (kind === 'timeout' || kind === 'reset' || kind === 'malformed') ? kind : 'notDelivered';
}

const CLASS_OF_HUNDREDS: Partial<Record<number, ResponseClass>> = { 3: '3xx', 4: '4xx', 5: '5xx' };

function failedWrite(exchange: ExchangeResult, context: CallContext, throttled: readonly number[]): WriteOutcome {
  const { status, error, requestIsWhole } = exchange;
  const reason = status === undefined ? (error?.message ?? 'no answer') : `upstream answered ${status}`;
  if (status === 403) return { kind: 'unauthorized', reason, isForbidden: true };
  if (status === 401 || error?.kind === 'noKey') return { kind: 'unauthorized', reason };
  if (status !== undefined) {
    if (status === 429 || throttled.includes(status)) {
      const retryAfterMs = parseRetryAfter(exchange.retryAfter, exchange.date);
      return { kind: 'throttled', reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    }
    // "See Other" is what a POST that was carried out is answered with.
    if (isRejection(status) && status !== 303)
      return { kind: 'rejected', status, error: textOfRejection(exchange, context) };
  }
  return requestIsWhole ? inDoubt(reason) : { kind: 'notDelivered', reason };
}

/** A body that broke off may end within an echo of the key, which could not be masked. */
function textOfRejection({ error, body }: ExchangeResult, context: CallContext): string {
  return error ? '' : rejectionText(body, context.key);
}

/** Enough to say why; whole error pages are of no use to a reader. */
const MAX_TEXT_BYTES = 500;

/**
 * The `error` and `details` of a body, or else its plain text: shortened, without control characters, and with the key
 * masked. It may repeat the prompt.
 */
function rejectionText(body: Uint8Array, key: string | undefined): string {
  const text = Buffer.from(body).toString('utf8');
  const said = saidInJson(text) ?? (isMarkup(text) ? '' : text);
  const masked = key ? said.replaceAll(key, '***') : said;
  return cutToBytes(masked.replace(/[\p{Cc}\p{Cf}\p{Surrogate}\s]+/gu, ' ').trim(), MAX_TEXT_BYTES);
}

function saidInJson(text: string): string | undefined {
  const { error, details } = parsed(text);
  if (typeof error !== 'string') return undefined;
  const more: unknown[] = Array.isArray(details) ? details : [];
  const messages = more.map((detail) => (detail as { message?: unknown } | null)?.message);
  // Errors of one cause repeat its text in `details`.
  return [...new Set([error, ...messages.filter((message) => typeof message === 'string')])].join('; ');
}

function parsed(text: string): { error?: unknown; details?: unknown } {
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}

/** JSON without an `error`, and HTML, say nothing worth showing. */
function isMarkup(text: string): boolean {
  return /^\s*[<{[]/.test(text);
}

function inDoubt(reason: string): WriteOutcome {
  return { kind: 'inDoubt', reason };
}

function message(reason: string, context: CallContext): string {
  return `${reason} (${context.description})`;
}

function reasonOf(error: unknown): string {
  if (error instanceof InvalidResponseError) return error.message;
  throw error;
}

const DELTA_SECONDS = /^\d+$/;
/** The forms of RFC 9110 5.6.7 that servers still send; `Date.parse` alone would take far more. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*, .* gmt$/i;

/**
 * What a `Retry-After` header asks for, in milliseconds, 0 to `maxMs`; undefined if it says nothing usable.
 * The wait that follows is chosen in agent-job/waits.ts. A date is counted from the response's
 * own `Date`, by the clock that made both; from `now` if there is no valid one.
 */
export function parseRetryAfter(
  header: string | null,
  date: string | null,
  now: number = Date.now(),
  maxMs: number = MAX_RETRY_AFTER_MS,
): number | undefined {
  const text = header?.trim() ?? '';
  const respondedAt = parseDate(date?.trim() ?? '');
  const waitMs = DELTA_SECONDS.test(text)
    ? Number(text) * 1_000
    : parseDate(text) - (Number.isNaN(respondedAt) ? now : respondedAt);
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), maxMs);
}

function parseDate(text: string): number {
  return HTTP_DATE.test(text) ? Date.parse(text) : NaN;
}

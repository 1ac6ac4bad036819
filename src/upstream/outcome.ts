/** Decides what an exchange on the wire means to the caller. */
import { cutToBytes } from '../contract/shared.js';
import type { WriteOutcome } from '../contract/write-outcome.js';
import { ReadFailedError, RejectedError } from './errors.js';
import { type CallContext, type ExchangeResult, isOk } from './exchange.js';
import { inOneLine, isPage, jobIdInLocation, leavesOrigin, shownPage, shownTarget, withoutKey } from './on-the-way.js';
import { retryAfterOf } from './retry-after.js';
import { MalformedResponseError, readCreatedJob, readJobRecord, type ReadRecord } from './schema.js';
import type { EndStatuses } from './shown-job.js';

interface AnswerSettings {
  /** Statuses that the operator vouches are answered before a write is accepted. */
  throttled: readonly number[];
  ends: EndStatuses;
}

/** What became of a create. A 2xx to a whole one means that a job was made: which one, its answer must say. */
export function createOutcome(
  exchange: ExchangeResult,
  context: CallContext,
  { projectId, throttled, ends }: AnswerSettings & { projectId: string },
): WriteOutcome {
  const { status, body, error, requestIsWhole } = exchange;
  const located = jobIdInLocation(exchange, context, projectId);
  if (located !== null && (status === 303 || (isOk(status) && error)))
    return { kind: 'accepted', jobId: located, job: null };
  if (!isOk(status)) return failedWrite(exchange, context, throttled);
  try {
    if (error) throw new MalformedResponseError(`upstream answered ${status}, but ${error.message}`);
    const { id, ...shown } = readCreatedJob(body, located, ends);
    return { kind: 'accepted', jobId: id, ...shown };
  } catch (thrown) {
    const reason = reasonOf(thrown);
    return requestIsWhole ? inDoubtForGood(reason, exchange, context) : inDoubt(reason);
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

function recordIn(body: Uint8Array, jobId: string, ends: EndStatuses): ReadRecord | null {
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
  const retryAfterMs = retryAfterOf(exchange.headers, status === 429);
  const failed = (reason: string, isOfPage = false) =>
    new ReadFailedError(message(reason, context), status, retryAfterMs, reason, isOfPage);
  if (isPage(exchange)) {
    const { reason, text } = shownPage(exchange, context.key);
    throw failed(reason + text, true);
  }
  if (isRedirect(status)) throw failed(redirectReason(exchange, context));
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

/** A rejection: 4xx other than 408 (may have been accepted) and 429 (not for now). */
export function isRejection(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

function isRedirect(status: number | undefined): boolean {
  return status !== undefined && status >= 300 && status < 400;
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
  'malformed', // A 2xx whose body can't be believed, a page in place of an answer, or no HTTP at all.
  'aborted', // By the caller's signal.
] as const;
type ResponseClass = (typeof RESPONSE_CLASSES)[number];

/** The class of an exchange; `isReadable` says whether the body of a 2xx was of use. */
export function responseClass(exchange: ExchangeResult, isReadable: boolean): ResponseClass {
  const { status, error, requestIsWhole } = exchange;
  if (isPage(exchange)) return 'malformed';
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
  if (status === undefined) {
    const reason = error?.message ?? 'no answer';
    if (error?.kind === 'noKey') return { kind: 'unauthorized', reason };
    return requestIsWhole ? inDoubt(reason) : { kind: 'notDelivered', reason };
  }
  const reason = `upstream answered ${status}`;
  if (status === 429 || throttled.includes(status)) {
    const retryAfterMs = retryAfterOf(exchange.headers, true);
    return { kind: 'throttled', reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
  }
  if (isPage(exchange)) return { kind: 'blocked', ...shownPage(exchange, context.key) };
  if (isRedirect(status)) return redirected(exchange, context, reason);
  if (status === 403) return { kind: 'unauthorized', reason, isForbidden: true };
  if (status === 401) return { kind: 'unauthorized', reason };
  if (isRejection(status)) return { kind: 'rejected', status, error: textOfRejection(exchange, context) };
  return requestIsWhole ? inDoubt(reason) : { kind: 'notDelivered', reason };
}

/**
 * A redirect is never followed. A POST that was carried out may be answered with one. It was not carried out if it is
 * to be sent elsewhere (307, 308), or if the answer leads away from the upstream, as to a sign-in page.
 */
function redirected(exchange: ExchangeResult, context: CallContext, reason: string): WriteOutcome {
  const { status, requestIsWhole } = exchange;
  const wasNotTaken = status === 307 || status === 308 || !requestIsWhole;
  const isFromElsewhere = (status === 301 || status === 302) && leavesOrigin(exchange, context);
  if (wasNotTaken || isFromElsewhere) return { kind: 'blocked', reason: redirectReason(exchange, context) };
  return inDoubtForGood(reason, exchange, context);
}

function redirectReason(exchange: ExchangeResult, context: CallContext): string {
  const target = shownTarget(exchange, context);
  return `a redirect instead of an answer: ${exchange.status}${target && ` to ${target}`}`;
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
  return cutToBytes(inOneLine(withoutKey(said, key)), MAX_TEXT_BYTES);
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

/** The write was carried out, as far as its answer shows: it must not be sent again without a person. */
function inDoubtForGood(reason: string, exchange: ExchangeResult, context: CallContext): WriteOutcome {
  const target = shownTarget(exchange, context);
  return { kind: 'inDoubt', reason, ...(target && { text: `; Location: ${target}` }), asksBeforeRetry: true };
}

function message(reason: string, context: CallContext): string {
  return `${reason} (${context.description})`;
}

function reasonOf(error: unknown): string {
  if (error instanceof MalformedResponseError) return error.message;
  throw error;
}

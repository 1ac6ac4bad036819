/** The one place where what happened on the wire becomes what the caller must decide. */
import type { JobRecord } from '../contract.js';
import { refusalText } from './response-text.js';
import { ReadFailedError, RejectedError } from './errors.js';
import type { Ending } from './exchange.js';
import { parseRetryAfter } from './retry-after.js';
import { MalformedAnswerError, readCreatedJob, readJobRecord } from './schema.js';
import type { WriteOutcome } from './upstream.js';

/** What was asked, for messages: no prompt. */
export interface Asked {
  /** The operation and its ids. */
  description: string;
  /** The key used, so that an echo of it can be masked. */
  key: string | undefined;
  /** The prompt of a write, for the same reason. */
  prompt?: string | undefined;
}

/** What became of a create. A 2xx without a usable job is in doubt: one may exist. */
export function createOutcome(ending: Ending, asked: Asked, throttled: readonly number[]): WriteOutcome {
  if (!isOk(ending.status)) return failedWrite(ending, asked, throttled);
  if (ending.trouble) return inDoubt(`upstream answered ${ending.status}, but ${ending.trouble.reason}`);
  try {
    const { id, job } = readCreatedJob(ending.body);
    return { kind: 'accepted', jobId: id, job };
  } catch (error) {
    return inDoubt(malformedReason(error));
  }
}

/** What became of a message: the 2xx is proof, unless it came before the last byte had left. */
export function messageOutcome(
  ending: Ending,
  asked: Asked,
  { jobId, throttled }: { jobId: string; throttled: readonly number[] },
): WriteOutcome {
  if (!isOk(ending.status)) return failedWrite(ending, asked, throttled);
  const job = ending.trouble ? null : recordIn(ending.body, jobId);
  // Whoever answered so had no whole message: a sign-in page, a gateway that asks nobody.
  if (job === null && !ending.requestIsWhole) return inDoubt(`upstream answered ${ending.status} before it had all`);
  return { kind: 'accepted', jobId, job };
}

function recordIn(body: Uint8Array, jobId: string): JobRecord | null {
  try {
    return readJobRecord(body, jobId);
  } catch (error) {
    malformedReason(error);
    return null;
  }
}

/** What a read brought, made by `parse`; throws ReadFailedError, or RejectedError for the statuses named. */
export function readOutcome<T>(
  ending: Ending,
  asked: Asked,
  { parse, isRejection }: { parse: (body: Uint8Array) => T; isRejection: (status: number) => boolean },
): T {
  const { status, trouble } = ending;
  const retryAfterMs = parseRetryAfter(ending.retryAfter, ending.date);
  const failed = (reason: string) => new ReadFailedError(message(reason, asked), status, retryAfterMs, reason);
  if (status !== undefined && isRejection(status)) {
    const reason = `upstream answered ${status}`;
    throw new RejectedError(message(reason, asked), status, rejectionText(ending, asked), reason);
  }
  if (status !== undefined && !isOk(status)) throw failed(`upstream answered ${status}`);
  if (trouble) throw failed(trouble.reason);
  try {
    return parse(ending.body);
  } catch (error) {
    throw failed(malformedReason(error));
  }
}

/** A refusal: 3xx, which is never followed, or 4xx other than 408 (may have been taken) and 429 (not for now). */
export function isRefusal(status: number): boolean {
  return status >= 300 && status < 500 && status !== 408 && status !== 429;
}

/** Every class that `onAnswer` can be told, one for each request. */
export const ANSWER_CLASSES = [
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
export type AnswerClass = (typeof ANSWER_CLASSES)[number];

/** The class of an ending; `isReadable` says whether the body of a 2xx was of use. */
export function answerClass({ status, trouble, requestIsWhole }: Ending, isReadable: boolean): AnswerClass {
  if (status === 401 || status === 403 || status === 429) return `${status}`;
  if (status !== undefined && status >= 300) return CLASS_OF_HUNDREDS[Math.floor(status / 100)] ?? 'malformed';
  if (isReadable) return '2xx';
  if (trouble === null) return 'malformed';
  if (trouble.kind === 'aborted') return 'aborted';
  const { kind } = trouble;
  return requestIsWhole && (kind === 'timeout' || kind === 'reset' || kind === 'malformed') ? kind : 'notDelivered';
}

const CLASS_OF_HUNDREDS: Partial<Record<number, AnswerClass>> = { 3: '3xx', 4: '4xx', 5: '5xx' };

function failedWrite(ending: Ending, asked: Asked, throttled: readonly number[]): WriteOutcome {
  const { status, trouble, requestIsWhole } = ending;
  const reason = status === undefined ? (trouble?.reason ?? 'no answer') : `upstream answered ${status}`;
  if (status === 401 || trouble?.kind === 'noKey') return { kind: 'unauthorized', reason };
  if (status !== undefined) {
    if (status === 429 || throttled.includes(status)) {
      const retryAfterMs = parseRetryAfter(ending.retryAfter, ending.date);
      return { kind: 'throttled', reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
    }
    // "See Other" is what a POST that was carried out is answered with.
    if (isRefusal(status) && status !== 303) return { kind: 'rejected', status, error: rejectionText(ending, asked) };
  }
  return requestIsWhole ? inDoubt(reason) : { kind: 'notDelivered', reason };
}

/** A body that broke off may end within an echo of the key, which could not be masked. */
function rejectionText({ trouble, body }: Ending, asked: Asked): string {
  return trouble ? '' : refusalText(body, asked);
}

function inDoubt(reason: string): WriteOutcome {
  return { kind: 'inDoubt', reason };
}

function message(reason: string, asked: Asked): string {
  return `${reason} (${asked.description})`;
}

function malformedReason(error: unknown): string {
  if (error instanceof MalformedAnswerError) return error.message;
  throw error;
}

export function isOk(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status <= 299;
}

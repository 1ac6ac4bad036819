/** Decides for which time an answer asks to wait. What of it is obeyed is in agent-job/waits.ts. */
import { MAX_RETRY_AFTER_MS } from '../contract.js';
import { DAY_MS } from '../contract/shared.js';
import { type ExchangeResult, headerOf } from './exchange.js';

/** A larger number is a Unix time: in milliseconds, in seconds. */
const MAX_UNIX_SECONDS = 1e11;
const MAX_SECONDS = (365 * DAY_MS) / 1_000;

/** The first of a list. */
const FIRST_NUMBER = /^(\d+(?:\.\d+)?) *(?:[,;]|$)/;
/** The forms of RFC 9110 5.6.7 that servers still send; `Date.parse` alone would take far more. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*, [^,]* gmt(?= *(?:,|$))/i;

/**
 * What `Retry-After` asks for, in milliseconds, at most an hour; undefined if it says nothing usable. A throttled
 * answer without it may say when its limit ends. Times are counted from the response's own `Date`, by the clock that
 * made both; from `now` if there is no valid one.
 */
export function retryAfterOf(
  headers: ExchangeResult['headers'],
  isThrottled: boolean,
  now: number = Date.now(),
): number | undefined {
  const date = parseDate(headerOf(headers, 'date'));
  const from = Number.isNaN(date) ? now : date;
  const names = ['retry-after', ...(isThrottled ? ['ratelimit-reset', 'x-ratelimit-reset'] : [])];
  const waitMs = names.map((name) => parseWait(headerOf(headers, name), from)).find((ms) => !Number.isNaN(ms));
  return waitMs && Math.ceil(Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS));
}

function parseWait(text: string, from: number): number {
  const number = Number(FIRST_NUMBER.exec(text)?.[1]);
  if (Number.isNaN(number)) return parseDate(text) - from;
  if (number > MAX_UNIX_SECONDS) return number - from;
  return Math.ceil(number) * 1_000 - (number > MAX_SECONDS ? from : 0);
}

function parseDate(text: string): number {
  return Date.parse(HTTP_DATE.exec(text)?.[0] ?? '');
}

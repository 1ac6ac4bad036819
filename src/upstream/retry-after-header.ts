/** The header `Retry-After` of a response. */
import { MAX_RETRY_AFTER_MS } from '../contract.js';

const DELTA_SECONDS = /^\d+$/;
/** The three forms of RFC 9110 5.6.7, all of which begin with a day's name; `Date.parse` alone would take far more. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? /i;

/**
 * What a `Retry-After` header asks for, in milliseconds, 0 to one hour; undefined where it says nothing usable. The
 * wait that follows is chosen in agent-job/retry-waits.ts. A date is counted from the response's own `Date`, by the
 * clock that made both; from `now` where there is no valid one.
 */
export function parseRetryAfter(
  header: string | null,
  date: string | null,
  now: number = Date.now(),
): number | undefined {
  const text = header?.trim() ?? '';
  const respondedAt = parseDate(date?.trim() ?? '');
  const waitMs = DELTA_SECONDS.test(text)
    ? Number(text) * 1_000
    : parseDate(text) - (Number.isNaN(respondedAt) ? now : respondedAt);
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS);
}

function parseDate(text: string): number {
  return HTTP_DATE.test(text) ? Date.parse(withZone(text)) : NaN;
}

/** The asctime form names no zone; HTTP dates are always UTC. */
function withZone(date: string): string {
  return /(?:gmt|utc|[+-]\d{4})$/i.test(date) ? date : `${date} GMT`;
}

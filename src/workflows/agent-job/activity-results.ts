/**
 * What an activity returned, checked before it is believed: another worker of a roll-out, or an operator's
 * `temporal activity complete`, may have made it. What this release does not know proves nothing.
 */
import type { Reading, PollJobResult } from '../../activities/index.js';
import type { JobRecord } from '../../contract.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import { checkId } from '../../contract/input-checks.js';

/** Why such a write is in doubt, and such a read a failed one. */
export const STRANGE_RESULT = 'the activity gave a result that this release does not know';

type Fields = Record<string, unknown>;

/** A later time is no date. */
const LATEST_DATE = 8.64e15;

/** What each kind of result must hold. */
const WRITE_KINDS: Record<WriteOutcome['kind'], (result: Fields) => boolean> = {
  accepted: ({ jobId }) => isId(jobId),
  rejected: ({ status, error }) => isNumber(status) && typeof error === 'string',
  throttled: ({ reason, retryAfterMs }) => typeof reason === 'string' && isOptionalNumber(retryAfterMs),
  held: ({ reason }) => typeof reason === 'string',
  unauthorized: ({ reason }) => typeof reason === 'string',
  notDelivered: ({ reason }) => typeof reason === 'string',
  inDoubt: ({ reason, lookAfter, confirmationRequestedIn }) =>
    typeof reason === 'string' &&
    isOptionalTime(lookAfter) &&
    (confirmationRequestedIn === undefined || typeof confirmationRequestedIn === 'string'),
};

const READING_KINDS: Record<Reading['kind'], (reading: Fields) => boolean> = {
  record: ({ job }) => isRecord(job),
  unchanged: () => true,
  settling: ({ job }) => isRecord(job),
  notFound: ({ count }) => isNumber(count),
  failed: ({ reason, retryAfterMs }) => typeof reason === 'string' && isOptionalNumber(retryAfterMs),
};

/** How a write ended; in doubt where this release can't tell what became of it. */
export function readWriteOutcome(value: unknown): WriteOutcome {
  if (!isKnown(WRITE_KINDS, value)) return { kind: 'inDoubt', reason: STRANGE_RESULT, isUnreadable: true };
  const result = value as WriteOutcome;
  // The kind is the proof that it was taken; a record that is none is left out.
  if (result.kind === 'accepted' && !isRecord(result.job)) return { ...result, job: null };
  // The kind is the proof that it was not taken; without a place it is sent again by itself.
  const mayBeQueued = result.kind === 'throttled' || result.kind === 'held';
  if (mayBeQueued && !isOptionalPlace(result.queued)) return { ...result, queued: null };
  return result;
}

function isOptionalPlace(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  const { for: what, position, expectedAt } = fieldsOf(value);
  return (
    (what === 'turn' || what === 'rateLimit') &&
    isOptionalNumber(position) &&
    (expectedAt === undefined || (typeof expectedAt === 'string' && Number.isFinite(Date.parse(expectedAt))))
  );
}

/** The result of a poll; null where it tells nothing that this release knows. */
export function readPollResult(value: unknown): PollJobResult | null {
  const { reading, reads, failures } = fieldsOf(value);
  return isKnown(READING_KINDS, reading) && isNumber(reads) && isNumber(failures) ? (value as PollJobResult) : null;
}

function isKnown(kinds: Record<string, (fields: Fields) => boolean>, value: unknown): boolean {
  const fields = fieldsOf(value);
  const { kind } = fields;
  return typeof kind === 'string' && Object.hasOwn(kinds, kind) && kinds[kind]?.(fields) === true;
}

function isRecord(value: unknown): value is JobRecord {
  const { id, status, prLink } = fieldsOf(value);
  return typeof id === 'string' && typeof status === 'string' && (prLink === null || typeof prLink === 'string');
}

function isId(value: unknown): boolean {
  try {
    return checkId(value, 'jobId') !== '';
  } catch {
    return false;
  }
}

function isOptionalNumber(value: unknown): boolean {
  return value === undefined || isNumber(value);
}

function isOptionalTime(value: unknown): boolean {
  return value === undefined || (isNumber(value) && Math.abs(value) <= LATEST_DATE);
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

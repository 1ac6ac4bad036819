/**
 * Decides which results of activities a job believes: another worker of a roll-out, or an operator's `temporal activity
 * complete`, may have made them. A result that this release does not know proves nothing.
 */
import type { PollJobResult } from '../../activities/agent-job/poll-attempt.js';
import type { ReadJobResult } from '../../activities/agent-job/read-job.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import { TERMINAL_STATUSES, type TerminalStatus } from '../../contract.js';
import { InvalidInputError } from '../../contract/errors.js';
import {
  type AnyKinds,
  FLAG,
  ID,
  type Kind,
  object,
  oneOf,
  optional,
  parseFields,
  TEXT,
} from '../../contract/kinds.js';

/** Why such a write is in doubt, and such a poll a failed one. */
export const STRANGE_RESULT = 'the activity gave a result that this release does not know';

/** A number that is finite; a later time is no date. */
function number(most = Number.MAX_VALUE): Kind<number> {
  const check = (value: unknown, field: string): number => {
    if (typeof value === 'number' && Math.abs(value) <= most) return value;
    throw new InvalidInputError(field, 'must be a number');
  };
  return { check, schema: () => ({ type: 'number' }) };
}

const NUMBER = number();
const LATEST_DATE_MS = 8.64e15;
const TIME: Kind<string> = {
  ...TEXT,
  check: (value, field) => new Date(TEXT.check(value, field)).toISOString(),
};
const REASON = { reason: TEXT };
const WITH_TEXT = { ...REASON, text: optional(TEXT) };
const RECORD = object({ id: TEXT, status: TEXT, prLink: optional(TEXT) });
/** An end, or null for none. */
const END_OR_NULL: Kind<TerminalStatus | null> = {
  check: (value, field) => (value === null ? null : oneOf(...TERMINAL_STATUSES).check(value, field)),
  schema: () => ({ enum: [...TERMINAL_STATUSES, null] }),
};
const LINKS: Kind<string[]> = {
  check: (value, field) => (Array.isArray(value) ? value : [value]).map((link) => TEXT.check(link, field)),
  schema: () => ({ type: 'array' }),
};
const SHOWN_RECORD = { job: RECORD, end: END_OR_NULL, counts: FLAG, prLinks: optional(LINKS) };
const QUEUE_PLACE = object({ for: oneOf('turn', 'rateLimit'), position: optional(NUMBER), expectedAt: optional(TIME) });
const CONFIRMATION = object({ runId: TEXT, confirmWritesBefore: optional(TEXT) });

/** What each kind of result must hold. */
const WRITE_OUTCOMES: Record<WriteOutcome['kind'], AnyKinds> = {
  accepted: { jobId: ID },
  rejected: { status: NUMBER, error: TEXT },
  throttled: { ...REASON, retryAfterMs: optional(NUMBER) },
  held: REASON,
  unauthorized: REASON,
  blocked: WITH_TEXT,
  notDelivered: REASON,
  inDoubt: { ...WITH_TEXT, lookAfter: optional(number(LATEST_DATE_MS)), toConfirm: optional(CONFIRMATION) },
};
const READINGS: Record<PollJobResult['reading']['kind'], AnyKinds> = {
  record: SHOWN_RECORD,
  unchanged: {},
  notFound: { count: NUMBER, page: optional(TEXT), retryAfterMs: optional(NUMBER) },
  failed: { ...REASON, retryAfterMs: optional(NUMBER) },
};
const READS: Record<ReadJobResult['kind'], AnyKinds> = { found: {}, notFound: {}, doubtful: REASON, failed: REASON };

/** How a write ended; in doubt if this release can't tell what became of it. */
export function readWriteOutcome(value: unknown): WriteOutcome {
  if (!isOneOf(WRITE_OUTCOMES, value)) return { kind: 'inDoubt', reason: STRANGE_RESULT, asksBeforeRetry: true };
  const result = value as WriteOutcome;
  // The kind is the proof that it was taken; a record that is none is left out.
  if (result.kind === 'accepted' && !holds({ job: RECORD, prLinks: optional(LINKS) }, result)) {
    return { kind: 'accepted', jobId: result.jobId, job: null };
  }
  // The kind is the proof that it was not taken; without a place it is sent again by itself.
  const mayBeQueued = result.kind === 'throttled' || result.kind === 'held';
  if (mayBeQueued && !holds({ queued: optional(QUEUE_PLACE) }, result)) return { ...result, queued: null };
  return result;
}

/** The result of a poll; null if this release does not know it. */
export function readPollResult(value: unknown): PollJobResult | null {
  const isKnown =
    holds({ reads: NUMBER, failures: NUMBER }, value) && isOneOf(READINGS, (value as PollJobResult).reading);
  return isKnown ? (value as PollJobResult) : null;
}

/** What the read of a job to adopt gave. */
export function readReadResult(value: unknown): ReadJobResult {
  return isOneOf(READS, value) ? (value as ReadJobResult) : { kind: 'failed', reason: STRANGE_RESULT };
}

function isOneOf(kinds: Record<string, AnyKinds>, value: unknown): boolean {
  const { kind } = (value ?? {}) as { kind?: unknown };
  return typeof kind === 'string' && Object.hasOwn(kinds, kind) && holds(kinds[kind]!, value);
}

function holds(fields: AnyKinds, value: unknown): boolean {
  try {
    parseFields(fields, (value ?? {}) as Record<string, unknown>);
    return true;
  } catch {
    return false;
  }
}

/** How a write ended, as the workflow must treat it. The one place where an upstream error becomes a decision. */
import type { JobRecord } from '../contract.js';
import { NotSentError, NotTakenError, RejectedError, UnknownOutcomeError } from '../upstream/errors.js';

export type WriteOutcome =
  /** The upstream took it; `job` is its answer, null where that held no whole record. */
  | { kind: 'taken'; jobId: string; job: JobRecord | null }
  /** The upstream refused it for good. */
  | { kind: 'rejected'; status: number; error: string }
  /** Surely not taken for now: wait, then send again. `isHeld`: it was not even sent, as others had just been asked to wait. */
  | { kind: 'notTaken'; reason: string; retryAfterMs?: number; isHeld?: true }
  /** Surely never left: send again. */
  | { kind: 'notSent'; reason: string }
  /** May or may not have arrived. `lookAfter`, in milliseconds of the server's clock: from then on a look upstream can be trusted. */
  | { kind: 'unknown'; reason: string; lookAfter?: number };

/** Maps what the upstream client threw; anything it does not promise counts as unknown, the only safe guess about a write. */
export function writeOutcomeOf(error: unknown): Exclude<WriteOutcome, { kind: 'taken' }> {
  if (error instanceof NotSentError) return { kind: 'notSent', reason: error.reason };
  if (error instanceof NotTakenError) {
    return {
      kind: 'notTaken',
      reason: error.reason,
      ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    };
  }
  if (error instanceof RejectedError) return { kind: 'rejected', status: error.status, error: error.error };
  if (error instanceof UnknownOutcomeError) return { kind: 'unknown', reason: error.reason };
  return { kind: 'unknown', reason: `unexpected: ${error instanceof Error ? error.name : typeof error}` };
}

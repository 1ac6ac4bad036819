/** How a write ended, as the workflow must treat it. The one place where an upstream error becomes a decision. */
import type { JobRecord } from '../../contract.js';
import {
  NotSentError,
  NotTakenError,
  RejectedError,
  UnauthorizedError,
  UnknownOutcomeError,
} from '../../upstream/errors.js';

export type WriteOutcome =
  /** The upstream took it; `job` is its answer, null where that held no whole record. */
  | { kind: 'accepted'; jobId: string; job: JobRecord | null }
  /** The upstream refused it for good. */
  | { kind: 'rejected'; status: number; error: string }
  /** Surely not taken for now: wait, then send again. `isHeld`: it was not even sent, as others had just been asked to wait. */
  | { kind: 'throttled'; reason: string; retryAfterMs?: number; isHeld?: true }
  /** Surely not taken for want of a key (401, or none is there): send again once the key is accepted. `isHeld`: as above. */
  | { kind: 'unauthorized'; reason: string; isHeld?: true }
  /** Surely never left: send again. */
  | { kind: 'notDelivered'; reason: string }
  /** May or may not have arrived. `lookAfter`, in milliseconds of the server's clock: from then on a look upstream can be trusted. */
  | { kind: 'inDoubt'; reason: string; lookAfter?: number };

/** When a look upstream can be trusted, in milliseconds from the judgement; docs/guarantees.md says what each must outlast. */
const LOOK_AFTER_MS = {
  /** This worker reset the connection, or had an answer: what is in the network has arrived by then, or never will. */
  ownEnd: 30_000,
  /** The kernel of a worker that died goes on to deliver: Linux for up to 102 s. */
  lostWorker: 120_000,
};

/** Adds to an unknown outcome from when on a look upstream can be trusted. */
export function withLookAfter(outcome: WriteOutcome, judgedBy: keyof typeof LOOK_AFTER_MS, now: number): WriteOutcome {
  return outcome.kind === 'inDoubt' ? { ...outcome, lookAfter: Math.ceil(now + LOOK_AFTER_MS[judgedBy]) } : outcome;
}

/** Maps what the upstream client threw; anything it does not promise counts as unknown, the only safe guess about a write. */
export function writeOutcomeOf(error: unknown): Exclude<WriteOutcome, { kind: 'accepted' }> {
  if (error instanceof NotSentError) return { kind: 'notDelivered', reason: error.reason };
  if (error instanceof NotTakenError) {
    return {
      kind: 'throttled',
      reason: error.reason,
      ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    };
  }
  if (error instanceof UnauthorizedError) return { kind: 'unauthorized', reason: error.reason };
  if (error instanceof RejectedError) return { kind: 'rejected', status: error.status, error: error.error };
  if (error instanceof UnknownOutcomeError) return { kind: 'inDoubt', reason: error.reason };
  return { kind: 'inDoubt', reason: `unexpected: ${error instanceof Error ? error.name : typeof error}` };
}

/** The upstream as activities see it: its operations, and every way in which a write may end. */
import type { JobRecord, VisitorTotals } from '../contract.js';

/**
 * One page of the visitor export, numbers as the upstream sent them (whole or not), validated to be finite, >= 0 and <=
 * 2^53 - 1.
 */
export interface VisitorPage {
  totals: VisitorTotals;
  visitors: { path: string; human: number; ai: number; total: number }[];
  hasMore: boolean;
}

export interface WriteOptions {
  /**
   * Awaited once all but the last byte of a request have left, for each request of the call. What it resolves to is
   * asked in the same synchronous step that writes that byte; false ends the call as not delivered. A rejection ends
   * the call with its reason.
   */
  beforeLastByte?: () => Promise<() => boolean>;
}

export interface ReadOptions {
  signal?: AbortSignal;
}

/** What became of a write, by what the caller must decide. Its texts never hold a key, a prompt or a header. */
export type WriteOutcome =
  /** The upstream accepted it; `job` is the record in its response, null where there was no whole one. */
  | { kind: 'accepted'; jobId: string; job: JobRecord | null }
  /** The upstream rejected it for good: 3xx other than 303 (never followed), or 4xx other than 401, 408 and 429. */
  | { kind: 'rejected'; status: number; error: string }
  /** Surely not accepted for now (429, or a status the operator vouches for): send it again after `retryAfterMs`. */
  | { kind: 'throttled'; reason: string; retryAfterMs?: number }
  /**
   * Surely not accepted for want of a key: 401 with the newest one, or there is none. Pointless before the key changes.
   */
  | { kind: 'unauthorized'; reason: string }
  /** The request surely never reached the upstream whole: safe to send again. */
  | { kind: 'notDelivered'; reason: string }
  /**
   * May or may not have been taken, usually after the whole request left: time-out, reset, 303, 408, 5xx that the
   * settings do not name as not taken, a response that can't be read. Never sent again without a decision.
   */
  | { kind: 'inDoubt'; reason: string };

/**
 * The upstream's four operations. Plain HTTP: no retries (but of a read on a kept connection that the upstream had
 * closed), no waiting, one time limit over each whole exchange. A write resolves to its outcome and rejects only with
 * what `beforeLastByte` rejected with. A read rejects with one of `errors.ts` or with the signal's AbortError.
 */
export interface Upstream {
  createJob(request: { projectId: string; prompt: string }, options?: WriteOptions): Promise<WriteOutcome>;
  /** A 2xx to the whole message is accepted, even where its body can't be read. */
  sendMessage(
    request: { projectId: string; jobId: string; prompt: string },
    options?: WriteOptions,
  ): Promise<WriteOutcome>;
  /**
   * A 404 is a RejectedError with status 404; 401 and 403 and other 4xx are ReadFailedError: the watch outlives them.
   */
  getJob(request: { projectId: string; jobId: string }, options?: ReadOptions): Promise<JobRecord>;
  getVisitors(
    request: { projectId: string; dateFrom: string; dateTo: string; limit: number; offset: number },
    options?: ReadOptions,
  ): Promise<VisitorPage>;
  /**
   * Another text whenever the project's key is another, never the key itself; null where no usable key exists. Asks no
   * server.
   */
  keyVersion(projectId: string): Promise<string | null>;
}

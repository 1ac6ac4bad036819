/** The upstream as activities see it: its operations. Every way in which a write may end: contract/write-outcome.ts. */
import type { ShownJob, WriteOutcome } from '../contract/write-outcome.js';
import type { JobRecord, VisitorTotals } from '../contract.js';

/** One page of the visitor export. Numbers are as the upstream sent them, finite, and 0 to 2^53 - 1. */
export interface VisitorPage {
  totals: VisitorTotals;
  visitors: (VisitorRow | MalformedRow)[];
  hasMore: boolean;
  /** Fields that the answer lacked, and what they were read as, in words; absent if it lacked none. */
  readAs?: string[];
}

/** The visitors of one path. */
export interface VisitorRow extends VisitorTotals {
  path: string;
}

/** A row that is not as the interface says. */
export interface MalformedRow {
  malformed: unknown;
  /** The first field that is wrong, or `row`. */
  field: string;
  /** What is wrong with it, in words; no value. */
  fault: string;
}

/**
 * Awaited once all but the last byte of a request have left, for each request of the call. What it resolves to is asked
 * in the same synchronous step that writes that byte; false ends the call as not delivered. A rejection ends the call
 * with its reason.
 */
export type BeforeLastByte = () => Promise<() => boolean>;

/** What a write may ask before its end. */
export interface WriteOptions {
  beforeLastByte?: BeforeLastByte;
}

/** What a read may be ended by. */
export interface ReadOptions {
  signal?: AbortSignal;
}

/** Which page of a project's visitors is read. */
export interface VisitorsRequest {
  projectId: string;
  dateFrom: string;
  dateTo: string;
  limit: number;
  offset: number;
}

/**
 * The upstream's four operations. Plain HTTP: no waiting, one time limit over each call, and no retries, but one of a
 * read that lost its connection, and one with a newer key after a 401 or 403. A write resolves to its outcome and
 * rejects only with what `beforeLastByte` rejected with. A read rejects with one of `errors.ts` or with the signal's
 * AbortError.
 */
export interface Upstream {
  createJob(request: { projectId: string; prompt: string }, options?: WriteOptions): Promise<WriteOutcome>;
  /** A 2xx to the whole message is accepted, even if its body can't be read. */
  sendMessage(
    request: { projectId: string; jobId: string; prompt: string },
    options?: WriteOptions,
  ): Promise<WriteOutcome>;
  /**
   * A 404 and a 410 are a RejectedError with that status; 401 and 403 and other 4xx, and each page, are
   * ReadFailedError: the watch outlives them.
   */
  getJob(request: { projectId: string; jobId: string }, options?: ReadOptions): Promise<{ job: JobRecord } & ShownJob>;
  getVisitors(request: VisitorsRequest, options?: ReadOptions): Promise<VisitorPage>;
  /** Another text for each key of the project, never the key itself; null without a usable key. Asks no server. */
  keyVersion(projectId: string): Promise<string | null>;
}

import type { JobRecord, VisitorTotals } from '../contract.js';

/** One page of the visitor export, numbers as the upstream sent them (whole or not), validated to be finite, >= 0 and <= 2^53 - 1. */
export interface VisitorPage {
  totals: VisitorTotals;
  visitors: { path: string; human: number; ai: number; total: number }[];
  hasMore: boolean;
}

export interface WriteOptions {
  /**
   * Awaited once all but the last byte of a request have left, for each request of the call. What it resolves to is asked in the same
   * synchronous step that writes that byte; false ends the call as NotSentError. A rejection ends the call with its reason.
   */
  beforeLastByte?: () => Promise<() => boolean>;
}

export interface ReadOptions {
  signal?: AbortSignal;
}

/** A job that was created: its id is proof, the record null where the answer held no whole one. */
export interface CreatedJob {
  id: string;
  job: JobRecord | null;
}

/**
 * The upstream's four operations. Plain HTTP: no retries (but of a read on a kept connection that the upstream had closed), no waiting,
 * one time limit over each whole exchange.
 * Every rejection is one of `errors.ts`, the signal's AbortError for a read, or what `beforeLastByte` rejected with for a write.
 */
export interface Upstream {
  createJob(request: { projectId: string; prompt: string }, options?: WriteOptions): Promise<CreatedJob>;
  /** Null where the upstream took the message (2xx, to the whole of it) but its answer could not be read. */
  sendMessage(
    request: { projectId: string; jobId: string; prompt: string },
    options?: WriteOptions,
  ): Promise<JobRecord | null>;
  /** A 404 is a RejectedError with status 404; 401 and 403 and other 4xx are ReadFailedError: the watch outlives them. */
  getJob(request: { projectId: string; jobId: string }, options?: ReadOptions): Promise<JobRecord>;
  getVisitors(
    request: { projectId: string; dateFrom: string; dateTo: string; limit: number; offset: number },
    options?: ReadOptions,
  ): Promise<VisitorPage>;
  /** Another text whenever the project's key is another, never the key itself; null where no usable key exists. Asks no server. */
  keyVersion(projectId: string): Promise<string | null>;
}

/**
 * What the caller of the upstream must decide, one class per decision. A write (create, message) ends in an answer or in
 * exactly one of NotSent, NotTaken, Unauthorized, Rejected, UnknownOutcome; a read in an answer or in ReadFailed or Rejected.
 * Messages never hold a key, a prompt or a header.
 */
export abstract class UpstreamError extends Error {
  /** The cause alone, without operation and ids: for a reader who knows what was asked. */
  readonly reason: string;
  constructor(message: string, reason: string = message) {
    super(message);
    this.reason = reason;
  }
}

/** The request surely never reached the upstream whole: no connection was made, or its last byte was never handed to a socket. Safe to send again. */
export class NotSentError extends UpstreamError {
  override readonly name = 'NotSentError';
}

/** The upstream answered that it did not take the write for now (429, or a status the operator vouches for). Safe to send again, later. */
export class NotTakenError extends UpstreamError {
  override readonly name = 'NotTakenError';
  readonly status: number;
  /** What `Retry-After` asked for, in milliseconds from now, at most one hour; undefined where it said nothing usable. */
  readonly retryAfterMs: number | undefined;
  constructor(message: string, status: number, retryAfterMs: number | undefined, reason?: string) {
    super(message, reason);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A write that was surely not taken for want of a key: 401 with the newest one, or no usable key exists. Pointless before the key changes. */
export class UnauthorizedError extends UpstreamError {
  override readonly name = 'UnauthorizedError';
}

/** The upstream refused: 3xx other than 303 (never followed), or 4xx other than 401, 408 and 429. Sending the same again is pointless. */
export class RejectedError extends UpstreamError {
  override readonly name = 'RejectedError';
  readonly status: number;
  /** The upstream's own text, shortened; empty where it gave none. */
  readonly error: string;
  constructor(message: string, status: number, error: string, reason?: string) {
    super(message, reason);
    this.status = status;
    this.error = error;
  }
}

/** A write that may or may not have arrived: time-out, reset, 303, 408, 5xx, an answer that can't be read. Never sent again without a decision. */
export class UnknownOutcomeError extends UpstreamError {
  override readonly name = 'UnknownOutcomeError';
}

/** A read that gave no usable answer, whatever the reason; reading again later is harmless. */
export class ReadFailedError extends UpstreamError {
  override readonly name = 'ReadFailedError';
  /** The HTTP status, where there was an answer. */
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  constructor(message: string, status?: number, retryAfterMs?: number, reason?: string) {
    super(message, reason);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

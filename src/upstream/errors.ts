/** How a read fails, one class per decision of its caller. Messages never hold a key or a header. */
export abstract class UpstreamError extends Error {
  /** The cause alone, without operation and ids: for a reader who knows the call. */
  readonly reason: string;
  constructor(message: string, reason: string = message) {
    super(message);
    this.reason = reason;
  }
}

/** The upstream rejected a read for good: reading the same again is pointless. */
export class RejectedError extends UpstreamError {
  override readonly name = 'RejectedError';
  readonly status: number;
  /** The upstream's own text, shortened; empty if it gave none. */
  readonly error: string;
  constructor(message: string, status: number, error: string, reason?: string) {
    super(message, reason);
    this.status = status;
    this.error = error;
  }
}

/** A read that gave no usable response, whatever the reason; reading again later is harmless. */
export class ReadFailedError extends UpstreamError {
  override readonly name = 'ReadFailedError';
  /** The HTTP status, if there was a response. */
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  /** Something on the way answered with a page: it says nothing of the key or the job. */
  readonly isPage: boolean;
  constructor(message: string, status?: number, retryAfterMs?: number, reason?: string, isPage = false) {
    super(message, reason);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.isPage = isPage;
  }
}

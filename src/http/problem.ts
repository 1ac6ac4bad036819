/** What a caller over HTTP learns of an error: RFC 9457, with our client's code and whether to try again. */
import { STATUS_CODES } from 'node:http';
import { AgentJobsError, type AgentJobsErrorCode, NoWorkerError, TemporalCallError } from '../client/errors.js';
import { isOutage, isRequestInvalid } from '../client/temporal-errors.js';
import { InvalidInputError } from '../contract/errors.js';

/** An answer that is an error. Its code is the client's, or the words of its status, such as `NOT_FOUND`. */
export class Problem extends Error {
  readonly status: number;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    detail: string,
    {
      code,
      retryable = false,
      headers = {},
    }: { code?: string; retryable?: boolean; headers?: Problem['headers'] } = {},
  ) {
    super(detail);
    const title = STATUS_CODES[status] ?? 'Error';
    const named = code ?? title.toUpperCase().replaceAll(' ', '_');
    this.status = status;
    this.body = { type: 'about:blank', title, status, detail, code: named, retryable };
    this.headers = headers;
  }
}

/** A message of the Model Context Protocol that is declined, as its clients understand it: an error of JSON-RPC. */
export class RpcProblem extends Problem {
  override readonly body: object;

  constructor(code: number, message: string, id: unknown = null) {
    super(400, message, { headers: { 'content-type': 'application/json' } });
    this.body = { jsonrpc: '2.0', id, error: { code, message } };
  }

  /** For a body that is no message, such as a batch; any other error stays. */
  static of(error: unknown): unknown {
    if (error instanceof InvalidInputError) return new RpcProblem(-32_600, error.message);
    return error instanceof Problem && error.status === 400 ? new RpcProblem(-32_700, error.message) : error;
  }
}

/** The media type of RFC 9457. */
export const PROBLEM_TYPE = 'application/problem+json';
const RETRY_AFTER = { 'retry-after': '2' } as const;

/** The statuses of the client's codes. Any other code is 409: the job's state does not, or no longer, fit the call. */
const STATUS_OF: Partial<Record<AgentJobsErrorCode, number>> = {
  FOLLOW_UP_CONFLICT: 422,
  FOLLOW_UP_UNCONFIRMED: 504,
  INVALID_INPUT: 422,
  JOB_NOT_FOUND: 404,
  KEY_CONFLICT: 422,
  NO_WORKER: 504,
  TEMPORAL_UNAVAILABLE: 503,
  // An operator must mend these.
  CONFIG: 502,
  PAYLOAD_KEYS: 502,
  SEARCH_ATTRIBUTES_REFUSED: 502,
  TEMPORAL_CALL: 502,
};

/** The problem that an error means to the caller; one that is this server's own fault is reported. */
export function problemOf(error: unknown, report: (problem: string) => void): Problem {
  if (error instanceof Problem) return error;
  if (!(error instanceof AgentJobsError)) {
    report(`a request failed: ${(error as Error)?.stack ?? String(error)}`);
    return new Problem(500, 'an error of this server, which its log shows');
  }
  const status = statusOf(error);
  const { message, code, retryable } = error;
  return new Problem(status, message, { code, retryable, headers: status === 503 ? RETRY_AFTER : {} });
}

function statusOf(error: AgentJobsError): number {
  if (error instanceof TemporalCallError) {
    if (error.retryable) return 503;
    // Temporal's text says what is wrong with the request, for example that it is too large.
    if (isRequestInvalid(error)) return 422;
  }
  const isUnconfirmed = error.code === 'FOLLOW_UP_UNCONFIRMED' && !(error.cause instanceof NoWorkerError);
  if (isUnconfirmed && isOutage(error.cause)) return 503;
  return STATUS_OF[error.code] ?? 409;
}

/** Reads what a caller sent; an error is a problem 400, without the parser's words, which may quote a prompt. */
export function readOr400<T>(detail: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new Problem(400, detail);
  }
}

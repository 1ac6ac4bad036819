/** One request on the wire and what became of it: facts only, judged in `outcome.ts`. */

/** How an exchange broke off; `reason` is for people and names no host, key or body. */
export interface ExchangeError {
  kind: 'noKey' | 'notConnected' | 'timeout' | 'aborted' | 'reset' | 'malformed' | 'withheld';
  reason: string;
  /** What the caller's own check threw; the call ends with it. */
  cause?: unknown;
}

export type ExchangePhase = 'connecting' | 'sending' | 'waiting' | 'receiving';

export interface ExchangeResult {
  /** The status of the response, where one began. */
  status: number | undefined;
  retryAfter: string | null;
  /** The response's `Date`, by which one in `Retry-After` is read. */
  date: string | null;
  /** The response's body, as far as it came. */
  body: Uint8Array;
  /** Null where the response is complete. */
  error: ExchangeError | null;
  /**
   * Whether the last byte of the request was handed to a socket; while it was not, the upstream can't have the request.
   */
  requestIsWhole: boolean;
}

/** The result of a request that never began. */
export function notStarted(error: ExchangeError): ExchangeResult {
  return { status: undefined, retryAfter: null, date: null, body: new Uint8Array(), error, requestIsWhole: false };
}

/** Whether a status is a 2xx. */
export function isOk(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status <= 299;
}

/** The cause of a failed connection or socket, in a few words; error texts of the network stack may hold addresses. */
export function exchangeErrorOf(error: unknown, isConnected: boolean): ExchangeError {
  const code = codeOf(error);
  if (isConnected) {
    return code.startsWith('HPE_') || MALFORMED_CODES.has(code)
      ? { kind: 'malformed', reason: `answer is not valid HTTP (${code})` }
      : { kind: 'reset', reason: `connection was lost (${code})` };
  }
  return { kind: 'notConnected', reason: connectReason(error, code) };
}

const MALFORMED_CODES = new Set(['HTTPParserError', 'UND_ERR_HEADERS_OVERFLOW', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH']);

const CONNECT_REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name lookup failed',
  ETIMEDOUT: 'no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  ECONNRESET: 'connection was reset before it was ready',
};

function connectReason(error: unknown, code: string): string {
  const proxyStatus = /Proxy response \((\d+)\)/.exec(error instanceof Error ? error.message : '')?.[1];
  if (proxyStatus) return `the proxy refused the tunnel (${proxyStatus})`;
  const known = CONNECT_REASONS[code];
  if (known) return known;
  return /CERT|TLS|SSL|SIGN|PRX/.test(code) ? `TLS failed (${code})` : `connection failed (${code})`;
}

function codeOf(error: unknown): string {
  const { code, errors, name } = (error ?? {}) as { code?: unknown; errors?: unknown[]; name?: unknown };
  if (typeof code === 'string') return code;
  if (errors?.length) return codeOf(errors[0]);
  return typeof name === 'string' ? name : 'unknown';
}

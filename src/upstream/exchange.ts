import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import type { Dispatcher } from 'undici';

/** One request on the wire and what became of it: facts only, judged in `outcome.ts`. */

/** How an exchange broke off; `reason` is for people and names no host, key or body. */
export interface ExchangeError {
  kind: 'noKey' | 'notConnected' | 'timeout' | 'aborted' | 'reset' | 'malformed' | 'withheld';
  reason: string;
  /** What the caller's own check threw; the call ends with it. */
  cause?: unknown;
}

type ExchangePhase = 'connecting' | 'sending' | 'waiting' | 'receiving';

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

/** What messages about a call may need; they show no prompt. */
export interface CallContext {
  /** The operation and its ids. */
  description: string;
  /** The key used, so that an echo of it can be masked. */
  key: string | undefined;
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
function exchangeErrorOf(error: unknown, isConnected: boolean): ExchangeError {
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

interface ReaderOptions {
  /** The response's body is cut off, and the exchange with it, beyond this many bytes. */
  maxBytes: number;
  /** Called once, before the caller learns of the result: whoever holds the connection keeps or closes it. */
  onEnd: (error: ExchangeError | null) => void;
  /** A request without a body is whole once a connection stands. */
  hasBody: boolean;
}

/** Collects what becomes of one request; ends exactly once, and from then on lets nothing more happen on the wire. */
export class ResponseReader implements Dispatcher.DispatchHandler {
  readonly result: Promise<ExchangeResult>;
  /** Set before the last byte of the request is handed over. */
  requestIsWhole = false;
  #status: number | undefined;
  #times: Pick<ExchangeResult, 'retryAfter' | 'date'> = { retryAfter: null, date: null };
  /** How the body is said to be compressed. */
  #encoding = '';
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isConnected = false;
  #isOver = false;
  #controller: Dispatcher.DispatchController | undefined;
  #resolve!: (ending: ExchangeResult) => void;
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.result = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** How far the exchange has come. */
  get phase(): ExchangePhase {
    if (!this.#isConnected) return 'connecting';
    if (this.#status !== undefined) return 'receiving';
    return this.requestIsWhole ? 'waiting' : 'sending';
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the upstream answered, but not with 2xx: there is no point in sending the rest of the request. */
  get isRejected(): boolean {
    return this.#status !== undefined && (this.#status < 200 || this.#status > 299);
  }

  /** Ends the exchange, and its connection, as it stands; does nothing once it is over. */
  end(error: ExchangeError | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onEnd(error); // First: undici would only close the connection.
    if (error) this.#controller?.abort(new Error(error.kind));
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    const { requestIsWhole } = this;
    this.#resolve({ status: this.#status, ...this.#times, body, error, requestIsWhole });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // The queue may begin again what it believes unsent; a request is begun once.
    if (this.#isOver || this.#isConnected) return controller.abort(new Error('over'));
    this.#isConnected = true;
    this.#controller = controller;
    if (!this.#options.hasBody) this.requestIsWhole = true;
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>): void {
    if (status < 200) return;
    this.#status = status;
    this.#times = { retryAfter: textOf(headers['retry-after']), date: textOf(headers['date']) };
    this.#encoding = textOf(headers['content-encoding'])?.trim().toLowerCase() ?? '';
    if (Number(headers['content-length']) > this.#options.maxBytes) this.#endOversized();
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#isOver) return;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#options.maxBytes) return this.#endOversized();
    this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    try {
      if (this.#encoding) this.#chunks = [this.#decoded(Buffer.concat(this.#chunks))];
    } catch (error) {
      if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE') return this.#endOversized();
      // It stays as it came: whoever reads it finds it broken, or not compressed at all.
    }
    this.end(null);
  }

  /** The body without its compression. */
  #decoded(body: Buffer): Buffer {
    const limit = { maxOutputLength: this.#options.maxBytes };
    switch (this.#encoding) {
      case 'br':
        return brotliDecompressSync(body, limit);
      case 'deflate': // Servers send it with its header, as they should, or without.
        return (body[0]! & 0x0f) === 8 ? inflateSync(body, limit) : inflateRawSync(body, limit);
      case 'gzip':
      case 'x-gzip':
        return gunzipSync(body, limit);
      default:
        return body;
    }
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    this.end(exchangeErrorOf(error, this.#isConnected));
  }

  #endOversized(): void {
    this.end({ kind: 'malformed', reason: `answer is over ${this.#options.maxBytes / 1024} KiB` });
  }
}

function textOf(header: unknown): string | null {
  return typeof header === 'string' ? header : null;
}

/** The one time limit over a whole call, with its one repeat by a rotated key. The caller's own signal ends it too. */
export class TimeLimit {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;
  readonly #limitMs: number;

  constructor(limitMs: number, caller: AbortSignal | undefined) {
    this.#limitMs = limitMs;
    this.#caller = caller;
    this.signal = this.#controller.signal;
    this.#timer = setTimeout(this.#abort, limitMs);
    caller?.addEventListener('abort', this.#abort, { once: true });
    if (caller?.aborted) this.#abort();
  }

  readonly #abort = () => this.#controller.abort();

  /** What the abort means for an exchange that had come this far. */
  readonly errorOfAbort = (phase: ExchangePhase): ExchangeError =>
    this.#caller?.aborted
      ? { kind: 'aborted', reason: 'the caller gave up' }
      : { kind: 'timeout', reason: `${MISSING[phase]} within ${this.#limitMs / 1_000} s` };

  /** The promise's outcome, or undefined where the limit is over first. */
  async race<T>(promise: Promise<T>): Promise<T | undefined> {
    if (this.signal.aborted) {
      promise.catch(() => {}); // Nobody waits for it: unheard, its rejection would end the process.
      return undefined;
    }
    let onAbort!: () => void;
    const over = new Promise<undefined>((resolve) => (onAbort = () => resolve(undefined)));
    this.signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([promise, over]);
    } finally {
      this.signal.removeEventListener('abort', onAbort);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#abort);
  }
}

const MISSING: Record<ExchangePhase, string> = {
  connecting: 'no connection',
  sending: 'request not taken off the line',
  waiting: 'no answer',
  receiving: 'no complete answer',
};

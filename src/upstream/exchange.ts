/** One request on the wire and what becomes of it: facts only, which `outcome.ts` judges. */
import type { Socket } from 'node:net';
import { brotliDecompressSync, unzipSync } from 'node:zlib';

/** How an exchange broke off; the message is for people and names no host, key or body. */
export class ExchangeError extends Error {
  readonly kind: 'noKey' | 'notConnected' | 'timeout' | 'aborted' | 'reset' | 'malformed' | 'withheld';
  /** A `cause` is what the caller's own check threw: the call ends with it. */
  constructor(kind: ExchangeError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** What became of one request. */
export interface ExchangeResult {
  /** The status of the response, if one began. */
  status: number | undefined;
  headers: ResponseHeaders;
  /** The response's body, as far as it came. */
  body: Uint8Array;
  /** Null if the response is complete. */
  error: ExchangeError | null;
  /** Whether the last byte of a write was handed to a socket; until then the upstream can't have the request. */
  requestIsWhole: boolean;
}

/** What messages about a call may need; they show no prompt. */
export interface CallContext {
  /** The operation and its ids. */
  description: string;
  /** The key used, so that an echo of it can be masked. */
  key: string | undefined;
  /** The address of the upstream, with a slash at its end. */
  base: URL;
}

/** The result of a request that never began. */
export function notStarted(error: ExchangeError): ExchangeResult {
  return { status: undefined, headers: {}, body: new Uint8Array(), error, requestIsWhole: false };
}

/** Whether a status is a 2xx. */
export function isOk(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status <= 299;
}

/** The headers of a response by their names in lower case; one that came more than once is a list. */
type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The value of a header, the first of several; empty without one. */
export function headerOf(headers: ResponseHeaders, name: string): string {
  return [headers[name]].flat()[0]?.trim() ?? '';
}

/** Collects the facts of one exchange as they come. */
export class Exchange {
  /** The socket of a write to the upstream, TLS and tunnel included, once it is connected. */
  socket: Socket | undefined;
  /** Set before the last byte of a write is handed over; a read has no body to wait for. */
  requestIsWhole: boolean;
  isComplete = false;
  readonly #maxBytes: number;
  #status: number | undefined;
  #headers: ResponseHeaders = {};
  #chunks: Uint8Array[] = [];
  #bytes = 0;

  /** The exchange breaks off once a body is longer than `maxBytes`. */
  constructor(operation: 'read' | 'write', maxBytes: number) {
    this.requestIsWhole = operation === 'read';
    this.#maxBytes = maxBytes;
  }

  /** Whether the upstream answered, but not with 2xx: there is no point in sending the rest of the request. */
  get hasError(): boolean {
    return this.#status !== undefined && !isOk(this.#status);
  }

  begin(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    this.#headers = headers;
  }

  /** Takes a piece of the response's body; answers with an error once that is above the limit. */
  add(chunk: Uint8Array): ExchangeError | null {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    return this.#bytes > this.#maxBytes ? this.#oversized() : null;
  }

  /** Resolves to what has come when the work is done, has failed, or the limit is over. Never rejects. */
  async follow(work: Promise<unknown>, limit: TimeLimit): Promise<ExchangeResult> {
    try {
      const isDone = await limit.race(work.then(() => true));
      return isDone ? this.#result(null, this.#decoded()) : this.#result(limit.errorOfAbort(this.#phase));
    } catch (error) {
      return this.#result(limit.signal.aborted ? limit.errorOfAbort(this.#phase) : this.#errorOf(error));
    }
  }

  get #phase(): ExchangePhase {
    if (this.#status !== undefined) return 'receiving';
    if (this.requestIsWhole) return 'waiting';
    return this.socket ? 'sending' : 'connecting';
  }

  #result(error: ExchangeError | null, body: Uint8Array = Buffer.concat(this.#chunks)): ExchangeResult {
    return { status: this.#status, headers: this.#headers, body, error, requestIsWhole: this.requestIsWhole };
  }

  /** The body without its compression. One that is not compressed as it says stays as it came, for its reader. */
  #decoded(): Uint8Array {
    const body = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    const decode = DECODERS.get(headerOf(this.#headers, 'content-encoding').toLowerCase());
    try {
      return decode?.(body, { maxOutputLength: this.#maxBytes }) ?? body;
    } catch (error) {
      if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE') throw this.#oversized();
      return body;
    }
  }

  #oversized(): ExchangeError {
    return new ExchangeError('malformed', `answer is over ${this.#maxBytes / 1024} KiB`);
  }

  /** What an error of undici or of the network says; its text may hold addresses. */
  #errorOf(error: unknown): ExchangeError {
    if (error instanceof ExchangeError) return error;
    const code = codeOf(error);
    // undici says no more of an answer `100 Continue` to a request that did not ask for one.
    if (error instanceof Error && error.message === 'bad response')
      return new ExchangeError('malformed', 'answer is 100, which was not asked for');
    if (code.startsWith('HPE_') || MALFORMED_CODES.has(code))
      return new ExchangeError('malformed', `answer is not valid HTTP (${code})`);
    // A read does not know its connection. The difference does not matter: it is repeated.
    const wasConnected = this.socket ?? (this.requestIsWhole && LOST_CODES.has(code));
    return wasConnected
      ? new ExchangeError('reset', `connection was lost (${code})`)
      : new ExchangeError('notConnected', connectReason(error, code));
  }
}

const DECODERS = new Map([
  ['br', brotliDecompressSync],
  ['gzip', unzipSync],
  ['x-gzip', unzipSync],
  ['deflate', unzipSync],
]);

type ExchangePhase = 'connecting' | 'sending' | 'waiting' | 'receiving';

/** What is missing at the end of the time limit. */
const LATE: Record<ExchangePhase, string> = {
  connecting: 'no connection',
  sending: 'request not taken off the line',
  waiting: 'no answer',
  receiving: 'no complete answer',
};

const LOST_CODES = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);
const MALFORMED_CODES = new Set(['HTTPParserError', 'UND_ERR_HEADERS_OVERFLOW', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH']);

const CONNECT_REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name lookup failed',
  ETIMEDOUT: 'no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  UND_ERR_DESTROYED: 'the client is closed',
  ECONNRESET: 'connection was reset before it was ready',
};

function connectReason(error: unknown, code: string): string {
  const proxyStatus = /Proxy response \((\d+)\)/.exec(error instanceof Error ? error.message : '')?.[1];
  if (proxyStatus) return `the proxy opened no tunnel (${proxyStatus})`;
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

/**
 * How long a whole call may take, its one repeat included. The caller's own signal ends it too. `AbortSignal.timeout`
 * and `AbortSignal.any` would do the same, but only a full collection frees them.
 */
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
  errorOfAbort(phase: ExchangePhase): ExchangeError {
    if (this.#caller?.aborted) return new ExchangeError('aborted', 'the caller gave up');
    return new ExchangeError('timeout', `${LATE[phase]} within ${this.#limitMs / 1_000} s`);
  }

  /** The promise's outcome, or undefined if the limit is over first. */
  async race<T>(promise: Promise<T>): Promise<T | undefined> {
    let onAbort!: () => void;
    const over = new Promise<undefined>((resolve) => (onAbort = () => resolve(undefined)));
    if (this.signal.aborted) onAbort();
    this.signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([over, promise]);
    } finally {
      this.signal.removeEventListener('abort', onAbort);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#abort);
  }
}

/**
 * The wire: undici's dispatchers. Not its `fetch`, which may send a request again by itself (421), and whose Request
 * and signals cost more than the exchange: they are found through weak references, so that only a full collection frees
 * them.
 */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { type ExchangeError, type ExchangeResult, notStarted, ResponseReader, type TimeLimit } from './exchange.js';
import { Connection, type ProxySettings } from './connection.js';
import { deferredLastByteBody } from './deferred-last-byte.js';

/** A GET, or with a body a POST of JSON. */
export interface UpstreamRequest {
  url: URL;
  headers: Record<string, string>;
  body: Uint8Array | null;
}

export interface ExchangeOptions {
  /** Ends the exchange at once. */
  signal: AbortSignal;
  /** The error that an aborted signal stands for. */
  errorOfAbort: TimeLimit['errorOfAbort'];
  /** Cap on the response's body. */
  maxBytes: number;
  beforeLastByte?: (() => Promise<() => boolean>) | undefined;
}

const CLOSED: ExchangeError = { kind: 'notConnected', reason: 'the client is closed' };
/** More idle connections than this are not kept after a burst of reads. */
const MAX_IDLE_CONNECTIONS = 256;

export class Transport {
  readonly #proxy: ProxySettings | undefined;
  /** Connections that reads left open; the last used is used first, so that the others can time out. */
  readonly #idle: Connection[] = [];
  readonly #reading = new Set<ResponseReader>();
  readonly #writing = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(proxy: ProxySettings | undefined) {
    this.#proxy = proxy;
    this.#connect({ isForWrite: true }).destroy(); // Wrong proxy settings show here, not at the first request.
  }

  /**
   * Sends a request without a body over a kept connection, one with a body over a connection of its own. Never rejects.
   */
  async send(request: UpstreamRequest, options: ExchangeOptions): Promise<ExchangeResult> {
    if (this.#isClosed) return notStarted(CLOSED);
    if (request.body === null) return this.#read(request, options);
    const sent = this.#write(request, request.body, options);
    this.#writing.add(sent);
    return sent.finally(() => this.#writing.delete(sent));
  }

  /** Ends the reads, waits for the writes in flight, and closes all connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const reader of this.#reading) reader.end(CLOSED);
    for (const connection of this.#idle.splice(0)) connection.destroy();
    await Promise.all(this.#writing);
  }

  async #read(request: UpstreamRequest, options: ExchangeOptions): Promise<ExchangeResult> {
    const kept = this.#idle.pop();
    const keptSocket = kept?.socket;
    const exchange = await this.#readOver(kept ?? this.#connect({ isForWrite: false }), request, options);
    // Lost without a response on the very socket of an earlier read: the upstream closed it meanwhile, and says nothing
    // by it.
    const wasStale =
      keptSocket && kept?.socket === keptSocket && exchange.error?.kind === 'reset' && exchange.status === undefined;
    if (!wasStale || this.#isClosed) return exchange;
    return this.#readOver(this.#connect({ isForWrite: false }), request, options);
  }

  async #readOver(connection: Connection, request: UpstreamRequest, options: ExchangeOptions): Promise<ExchangeResult> {
    const reader: ResponseReader = new ResponseReader({
      maxBytes: options.maxBytes,
      hasBody: false,
      onEnd: (error) => {
        this.#reading.delete(reader);
        if (error || this.#isClosed || this.#idle.length >= MAX_IDLE_CONNECTIONS) connection.destroy();
        else this.#idle.push(connection);
      },
    });
    this.#reading.add(reader);
    return run(connection.dispatcher, request, {}, reader, options);
  }

  async #write(request: UpstreamRequest, body: Uint8Array, options: ExchangeOptions): Promise<ExchangeResult> {
    const connection = this.#connect({ isForWrite: true });
    const reader: ResponseReader = new ResponseReader({
      maxBytes: options.maxBytes,
      hasBody: true,
      // A rejection may come while the kernel still holds the last byte: it must not arrive after the write was judged.
      onEnd: (error) => (error || reader.isRejected ? connection.destroy() : connection.close()),
    });
    const { beforeLastByte = () => Promise.resolve(() => true) } = options;
    const deferred = deferredLastByteBody(body, { reader, socketOf: () => connection.socket, beforeLastByte });
    return run(connection.dispatcher, request, declared(deferred, body.length), reader, options);
  }

  #connect(options: { isForWrite: boolean }): Connection {
    return new Connection({ proxy: this.#proxy, ...options });
  }
}

/** A body that undici writes piece by piece, under a declared length. */
function declared(body: Readable, length: number): Partial<Dispatcher.DispatchOptions> {
  return {
    body,
    headers: { 'content-type': 'application/json', 'content-length': String(length) },
    reset: true,
  };
}

async function run(
  dispatcher: Dispatcher,
  { url, headers, body }: UpstreamRequest,
  extra: Partial<Dispatcher.DispatchOptions>,
  reader: ResponseReader,
  { signal, errorOfAbort }: ExchangeOptions,
): Promise<ExchangeResult> {
  const onAbort = () => reader.end(errorOfAbort(reader.phase));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    else {
      const path = url.pathname + url.search;
      const method = body ? 'POST' : 'GET';
      const all = { ...headers, ...(extra.headers as Record<string, string>) };
      dispatcher.dispatch({ ...extra, origin: url.origin, path, method, headers: all }, reader);
    }
    return await reader.result;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

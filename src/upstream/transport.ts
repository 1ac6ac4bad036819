/**
 * The wire: undici's dispatchers. Not its `fetch`, which may send a request again by itself (421), and whose Request and signals cost
 * more than the exchange: they are found through weak references, so that only a full collection frees them.
 */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { AnswerReader } from './response-reader.js';
import { Connection, type ProxySettings } from './connection.js';
import { notBegun, type Ending, type Phase, type Trouble } from './exchange.js';
import { pacedBody } from './deferred-last-byte.js';

/** A GET, or with a body a POST of JSON. */
export interface UpstreamRequest {
  url: URL;
  headers: Record<string, string>;
  body: Uint8Array | null;
}

export interface ExchangeOptions {
  /** Ends the exchange at once. */
  signal: AbortSignal;
  /** The trouble that an aborted signal stands for. */
  troubleOfAbort: (phase: Phase) => Trouble;
  /** Cap on the answer's body. */
  mostBytes: number;
  beforeLastByte?: (() => Promise<() => boolean>) | undefined;
}

const CLOSED: Trouble = { kind: 'notConnected', reason: 'the client is closed' };
/** More idle connections than this are not kept after a burst of reads. */
const MOST_IDLE = 256;

export class Transport {
  readonly #proxy: ProxySettings | undefined;
  /** Connections that reads left open; the last used is used first, so that the others can time out. */
  readonly #idle: Connection[] = [];
  readonly #reading = new Set<AnswerReader>();
  readonly #writing = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(proxy: ProxySettings | undefined) {
    this.#proxy = proxy;
    this.#connect({ isForWrite: true }).destroy(); // Wrong proxy settings show here, not at the first request.
  }

  /** Sends a request without a body over a kept connection, one with a body over a connection of its own. Never rejects. */
  async send(request: UpstreamRequest, options: ExchangeOptions): Promise<Ending> {
    if (this.#isClosed) return notBegun(CLOSED);
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

  async #read(request: UpstreamRequest, options: ExchangeOptions): Promise<Ending> {
    const kept = this.#idle.pop();
    const keptSocket = kept?.socket;
    const ending = await this.#readOver(kept ?? this.#connect({ isForWrite: false }), request, options);
    // Lost without an answer on the very socket of an earlier read: the upstream closed it meanwhile, and says nothing by it.
    const wasStale =
      keptSocket && kept?.socket === keptSocket && ending.trouble?.kind === 'reset' && ending.status === undefined;
    if (!wasStale || this.#isClosed) return ending;
    return this.#readOver(this.#connect({ isForWrite: false }), request, options);
  }

  async #readOver(connection: Connection, request: UpstreamRequest, options: ExchangeOptions): Promise<Ending> {
    const reader: AnswerReader = new AnswerReader({
      mostBytes: options.mostBytes,
      onConnected: () => {
        connection.expectResponse();
        reader.requestIsWhole = true;
      },
      onEnd: (trouble) => {
        this.#reading.delete(reader);
        if (trouble || this.#isClosed || this.#idle.length >= MOST_IDLE) connection.destroy();
        else this.#idle.push(connection);
      },
    });
    this.#reading.add(reader);
    return run(connection.dispatcher, request, {}, reader, options);
  }

  async #write(request: UpstreamRequest, body: Uint8Array, options: ExchangeOptions): Promise<Ending> {
    const connection = this.#connect({ isForWrite: true });
    const reader: AnswerReader = new AnswerReader({
      mostBytes: options.mostBytes,
      onConnected: () => connection.expectResponse(),
      // A refusal may come while the kernel still holds the last byte: it must not arrive after the write was judged.
      onEnd: (trouble) => (trouble || reader.isRefused ? connection.destroy() : connection.close()),
    });
    const { beforeLastByte = () => Promise.resolve(() => true) } = options;
    const paced = pacedBody(body, { reader, socketOf: () => connection.socket, beforeLastByte });
    return run(connection.dispatcher, request, declared(paced, body.length), reader, options);
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
  reader: AnswerReader,
  { signal, troubleOfAbort }: ExchangeOptions,
): Promise<Ending> {
  const onAbort = () => reader.end(troubleOfAbort(reader.phase));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    else {
      const path = url.pathname + url.search;
      const method = body ? 'POST' : 'GET';
      const all = { ...headers, ...(extra.headers as Record<string, string>) };
      dispatcher.dispatch({ ...extra, origin: url.origin, path, method, headers: all }, reader);
    }
    return await reader.ended;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

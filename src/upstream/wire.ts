/**
 * The wire: undici's `request` for reads and `stream` for writes. Not its `fetch`, which may send a request again by
 * itself (421), and whose Request and signals cost more than the exchange.
 */
import { Writable } from 'node:stream';
import { type Dispatcher, EnvHttpProxyAgent, Pool, request, stream } from 'undici';
import { Exchange, ExchangeError, type ExchangeResult, notStarted, type TimeLimit } from './exchange.js';
import { OnceClient, type ProxySettings, WriteConnection } from './connection.js';
import { deferredLastByteBody } from './deferred-last-byte.js';
import type { BeforeLastByte } from './upstream.js';

/** A request without its body. */
export interface WireRequest {
  url: string;
  headers: Record<string, string>;
  limit: TimeLimit;
  /** Cap on the response's body. */
  maxBytes: number;
}

const ALLOWED: BeforeLastByte = () => Promise.resolve(() => true);
/** A proxy that does not answer `CONNECT` by then gets no tunnel; a call that waits for it is over before. */
const TUNNEL_TIMEOUT_MS = 20_000;

/** The connections to one upstream. */
export class Wire {
  readonly #proxy: ProxySettings;
  /** The connections of reads, which are kept for the next ones. */
  readonly #reads: Dispatcher;
  /** Those of repeated reads, each a new one: the kept ones may all be lost. */
  readonly #repeats: Dispatcher;
  readonly #writes = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(proxy: ProxySettings) {
    this.#proxy = proxy;
    this.#reads = agentOfReads(proxy, { pipelining: 1 });
    this.#repeats = agentOfReads(proxy, { pipelining: 0 });
  }

  /** Sends a GET over a kept connection, its repeat over a new one. Never rejects. */
  read(asked: WireRequest, isRepeat: boolean): Promise<ExchangeResult> {
    const exchange = new Exchange('read', asked.maxBytes);
    const dispatcher = isRepeat ? this.#repeats : this.#reads;
    return exchange.follow(readInto(exchange, dispatcher, asked), asked.limit);
  }

  /** Sends a POST over a connection of its own; `beforeLastByte` allows its last byte to leave. Never rejects. */
  async write(asked: WireRequest, body: Uint8Array, beforeLastByte = ALLOWED): Promise<ExchangeResult> {
    if (this.#isClosed) return notStarted(new ExchangeError('notConnected', 'the client is closed'));
    const written = this.#write(asked, body, beforeLastByte);
    this.#writes.add(written);
    return written.finally(() => this.#writes.delete(written));
  }

  /** Ends the reads, waits for the writes in flight, and closes all connections. */
  async close(): Promise<void> {
    this.#isClosed = true;
    void this.#reads.destroy();
    void this.#repeats.destroy();
    await Promise.all(this.#writes);
  }

  async #write(
    { url, headers, limit, maxBytes }: WireRequest,
    body: Uint8Array,
    beforeLastByte: BeforeLastByte,
  ): Promise<ExchangeResult> {
    const exchange = new Exchange('write', maxBytes);
    const connection = new WriteConnection(this.#proxy, (socket) => (exchange.socket = socket));
    let onWithheld!: (error: ExchangeError) => void;
    const withheld = new Promise<never>((_, reject) => (onWithheld = reject));
    const options = {
      dispatcher: connection.dispatcher,
      method: 'POST' as const,
      headers: { ...headers, 'content-length': String(body.length) },
      body: deferredLastByteBody(body, { exchange, signal: limit.signal, beforeLastByte, onWithheld }),
      reset: true,
    };
    const answered = stream(url, options, ({ statusCode, headers }) => {
      exchange.begin(statusCode, headers);
      return new Writable({
        write: (chunk: Uint8Array, _, done) => done(exchange.add(chunk)),
        final: (done) => {
          exchange.isComplete = true;
          // An error may come while the kernel still holds the last byte: that must not arrive after the write was
          // judged. So the connection is reset.
          if (!exchange.hasError) connection.mayClose();
          done();
        },
      });
    });
    try {
      return await exchange.follow(Promise.race([answered, withheld]), limit);
    } finally {
      connection.destroy();
    }
  }
}

/** `pipelining` is the number of requests that share a connection at once; with 0 none is kept. */
function agentOfReads(proxy: ProxySettings, options: { pipelining: 0 | 1 }): Dispatcher {
  const factory = (origin: URL, given: object) => new OnceClient(origin, given);
  return new EnvHttpProxyAgent({
    ...proxy,
    ...options,
    factory: (origin, given: object) => new Pool(origin, { ...given, factory }),
    clientFactory: (origin, given) => new Pool(origin, { ...given, headersTimeout: TUNNEL_TIMEOUT_MS }),
  });
}

async function readInto(
  exchange: Exchange,
  dispatcher: Dispatcher,
  { url, headers, limit }: WireRequest,
): Promise<void> {
  const response = await request(url, { dispatcher, headers, signal: limit.signal });
  exchange.begin(response.statusCode, response.headers);
  for await (const chunk of response.body) {
    const error = exchange.add(chunk as Uint8Array);
    if (error) throw error;
  }
}

/**
 * The wire: undici's dispatchers under a `fetch` for ky. Not undici's own `fetch`, which may send a request again by itself (421),
 * nor Node's, which holds another undici.
 */
import { EnvHttpProxyAgent, type Dispatcher } from 'undici';
import { AnswerReader } from './answer-reader.js';
import type { Ending, Phase, Trouble } from './exchange.js';
import { pacedBody } from './paced-body.js';
import { NO_TIME_LIMITS, proxyOptions, WriteConnection, type ProxySettings } from './write-connection.js';

export interface ExchangeOptions {
  /** Ends the exchange at once; its reason says why. */
  signal: AbortSignal;
  /** The trouble that an aborted signal stands for. */
  troubleOfAbort: (phase: Phase) => Trouble;
  /** Cap on the answer's body. */
  mostBytes: number;
  mayStillSend?: (() => boolean) | undefined;
}

const WITHHELD: Trouble = { kind: 'withheld', reason: 'it was too late to send it' };

export class Transport {
  readonly #proxy: ProxySettings | undefined;
  readonly #connectTimeoutMs: number;
  readonly #reads: Dispatcher;
  readonly #writes = new Set<Promise<unknown>>();

  constructor(proxy: ProxySettings | undefined, connectTimeoutMs: number) {
    this.#proxy = proxy;
    this.#connectTimeoutMs = connectTimeoutMs;
    const timeout = { timeout: connectTimeoutMs };
    // Connections without number: reads that hang must not stand in the way of others.
    this.#reads = new EnvHttpProxyAgent({
      ...proxyOptions(proxy),
      ...NO_TIME_LIMITS,
      connect: timeout,
      requestTls: timeout,
      proxyTls: timeout,
    });
  }

  /** Sends a request without a body over the pool, one with a body over a connection of its own. Never rejects. */
  async send(request: Request, options: ExchangeOptions): Promise<Ending> {
    if (request.body === null) return this.#read(request, options);
    const sent = this.#write(request, new Uint8Array(await request.arrayBuffer()), options);
    this.#writes.add(sent);
    return sent.finally(() => this.#writes.delete(sent));
  }

  /** Waits for the writes in flight, ends the reads, and closes all connections. */
  async close(): Promise<void> {
    await Promise.all([this.#reads.destroy(), ...this.#writes]);
  }

  #read(request: Request, options: ExchangeOptions): Promise<Ending> {
    const reader: AnswerReader = new AnswerReader({
      mostBytes: options.mostBytes,
      onEnd: () => {},
      beforeFirstByte: () => {
        reader.requestIsWhole = true;
        return null;
      },
    });
    return run(this.#reads, request, {}, reader, options);
  }

  #write(request: Request, body: Uint8Array, options: ExchangeOptions): Promise<Ending> {
    const connection = new WriteConnection(this.#proxy, this.#connectTimeoutMs);
    const mayStillSend = () => options.mayStillSend?.() ?? true;
    const reader: AnswerReader = new AnswerReader({
      mostBytes: options.mostBytes,
      onEnd: () => connection.destroy(),
      beforeFirstByte: () => (mayStillSend() ? null : WITHHELD),
    });
    const mayFinish = () => {
      if (!mayStillSend()) reader.end(WITHHELD);
      return !reader.isOver;
    };
    const paced = pacedBody(body, { reader, socketOf: () => connection.socket, mayFinish });
    return run(connection.dispatcher, request, declared(paced, body.length), reader, options);
  }
}

/** A body that undici writes piece by piece, under a declared length; its types know no iterables, its documentation does. */
function declared(body: AsyncIterable<Uint8Array>, length: number): Partial<Dispatcher.DispatchOptions> {
  return {
    body: body as unknown as NonNullable<Dispatcher.DispatchOptions['body']>,
    headers: { 'content-length': String(length) },
    reset: true,
  };
}

async function run(
  dispatcher: Dispatcher,
  request: Request,
  extra: Partial<Dispatcher.DispatchOptions>,
  reader: AnswerReader,
  { signal, troubleOfAbort }: ExchangeOptions,
): Promise<Ending> {
  const onAbort = () => reader.end(troubleOfAbort(reader.phase));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    else {
      const { origin, pathname, search } = new URL(request.url);
      const headers = { ...Object.fromEntries(request.headers), ...(extra.headers as Record<string, string>) };
      dispatcher.dispatch({ ...extra, origin, path: pathname + search, method: request.method, headers }, reader);
    }
    return await reader.ended;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

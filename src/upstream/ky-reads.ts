/**
 * Reads by ky: it joins the base URL, sets the key, repeats a request once with a newer key and tells a 2xx from an
 * error status. Three things stay outside of ky, for the tests hold them. The wire is `Transport`, because ky's
 * default, fetch, tells neither how far a request got nor caps a response. The time limit is `TimeLimit`, because ky's
 * ends with the headers. `Retry-After` is judged in `outcome.ts`, because the caller waits, not the client.
 */
import ky, { HTTPError, type KyInstance } from 'ky';
import { notStarted, type ExchangeResult } from './exchange.js';
import type { KeySource } from './keys.js';
import type { TimeLimit } from './time-limit.js';

export const HEADERS = {
  accept: 'application/json',
  'accept-encoding': 'identity', // What is compressed would not be read.
  'user-agent': 'agent-jobs',
};

export interface KyReadsOptions {
  baseUrl: string;
  keys: KeySource;
}

/** One read: what it asks for, and what ky's hooks need to know of it. */
export interface KyRead {
  path: string;
  query?: Record<string, string | number> | undefined;
  projectId: string;
  limit: TimeLimit;
  /** Carries out one request on the wire. */
  send: (url: URL, headers: Record<string, string>) => Promise<ExchangeResult>;
  /** Told of a response that is repeated with a newer key. */
  onRepeat: (exchange: ExchangeResult) => void;
  /** The key in use; set by the hooks. */
  key: string | undefined;
}

/** The exchange ended without a status, or with one that a Response cannot have. */
class NoResponseError extends Error {
  readonly exchange: ExchangeResult;
  constructor(exchange: ExchangeResult) {
    super(exchange.error?.reason ?? `upstream answered ${exchange.status}`);
    this.exchange = exchange;
  }
}

/**
 * The status of an exchange, by which ky decides. The rest stays in the exchange: a Response cannot tell that its body
 * broke off, and allows none with a 205.
 */
class ExchangeResponse extends Response {
  readonly exchange: ExchangeResult;
  constructor(exchange: ExchangeResult, status: number) {
    super(null, { status });
    this.exchange = exchange;
  }
}

export class KyReads {
  readonly #keys: KeySource;
  readonly #http: KyInstance;

  constructor({ baseUrl, keys }: KyReadsOptions) {
    this.#keys = keys;
    this.#http = ky.create({
      prefixUrl: baseUrl,
      headers: HEADERS,
      redirect: 'manual',
      timeout: false,
      retry: { limit: 1, delay: () => 0, shouldRetry: ({ error }) => this.#hasNewKey(error) },
      hooks: {
        beforeRequest: [(request, options) => this.#setKey(request, readOf(options))],
        beforeRetry: [({ request, options }) => this.#setKey(request, readOf(options))],
      },
    });
  }

  /** The exchange of a read, its repeat with a newer key included; rejects with KeyUnavailableError alone. */
  async read(read: KyRead): Promise<ExchangeResult> {
    const { path, query } = read;
    try {
      const response = await this.#http(path, {
        ...(query && { searchParams: query }),
        context: { read },
        fetch: (request) => fetchOverWire(request as Request, read),
      });
      return exchangeOf(response);
    } catch (error) {
      if (error instanceof HTTPError) return exchangeOf(error.response);
      if (error instanceof NoResponseError) return error.exchange;
      throw error;
    }
  }

  async #setKey(request: Request, read: KyRead): Promise<void> {
    read.key ??= await read.limit.race(this.#keys.keyFor(read.projectId));
    if (read.key === undefined) throw new NoResponseError(notStarted(read.limit.errorOfAbort('connecting')));
    request.headers.set('authorization', `Bearer ${read.key}`);
  }

  /** Whether the key was rotated while the read was under way. */
  async #hasNewKey(error: Error): Promise<boolean> {
    if (!(error instanceof HTTPError) || ![401, 403].includes(error.response.status)) return false;
    const read = readOf(error.options);
    const newKey = await read.limit.race(this.#keys.refresh(read.projectId, read.key ?? ''));
    if (!newKey) return false;
    read.onRepeat(exchangeOf(error.response));
    read.key = newKey;
    return true;
  }
}

function readOf({ context }: { context: Record<string, unknown> }): KyRead {
  return context['read'] as KyRead;
}

async function fetchOverWire(request: Request, { send }: KyRead): Promise<Response> {
  const exchange = await send(new URL(request.url), Object.fromEntries(request.headers));
  const { status } = exchange;
  if (status === undefined || status > 599) throw new NoResponseError(exchange);
  return new ExchangeResponse(exchange, status);
}

function exchangeOf(response: Response): ExchangeResult {
  return (response as ExchangeResponse).exchange;
}

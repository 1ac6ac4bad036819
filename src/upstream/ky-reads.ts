/**
 * Reads by ky: it joins the base URL, sets the key, repeats a request once with a newer key and tells a 2xx from an
 * error status. Three things stay outside of ky, for the tests hold them. The wire is `Transport`, because ky's
 * default, fetch, tells neither how far a request got nor caps a response. The time limit is `TimeLimit`, because ky's
 * ends with the headers. `Retry-After` is judged in `outcome.ts`, because the caller waits, not the client.
 */
import ky, { HTTPError, type KyInstance } from 'ky';
import { type ExchangeResult, isOk, notStarted, type TimeLimit } from './exchange.js';
import type { KeySource } from './keys.js';

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
interface KyRead {
  path: string;
  projectId: string;
  limit: TimeLimit;
  /** Carries out one request on the wire. */
  send: (url: URL, headers: Record<string, string>) => Promise<ExchangeResult>;
  /** Told of a response that is repeated with a newer key. */
  onRepeat: (exchange: ExchangeResult) => void;
  /** The key in use; set by the hooks. */
  key: string | undefined;
}

/** The exchange ended without what a Response can hold. */
class ExchangeFailedError extends Error {
  readonly exchange: ExchangeResult;
  constructor(exchange: ExchangeResult) {
    super(exchange.error?.reason ?? `upstream answered ${exchange.status}`);
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

  /**
   * The exchange of a read, its repeat with a newer key included, and the key that it used last; rejects with
   * KeyUnavailableError alone.
   */
  async read(asked: Omit<KyRead, 'key'>): Promise<{ exchange: ExchangeResult; key: string | undefined }> {
    const read: KyRead = { ...asked, key: undefined };
    return { exchange: await this.#exchange(read), key: read.key };
  }

  async #exchange(read: KyRead): Promise<ExchangeResult> {
    try {
      const response = await this.#http(read.path, {
        context: { read },
        fetch: (request) => fetchOverWire(request as Request, read),
      });
      return await exchangeOf(response);
    } catch (error) {
      if (error instanceof HTTPError) return exchangeOf(error.response);
      if (error instanceof ExchangeFailedError) return error.exchange;
      throw error;
    }
  }

  async #setKey(request: Request, read: KyRead): Promise<void> {
    read.key ??= await read.limit.race(this.#keys.keyFor(read.projectId));
    if (read.key === undefined) throw new ExchangeFailedError(notStarted(read.limit.errorOfAbort('connecting')));
    request.headers.set('authorization', `Bearer ${read.key}`);
  }

  /** Whether the key was rotated while the read was under way. */
  async #hasNewKey(error: Error): Promise<boolean> {
    if (!(error instanceof HTTPError) || ![401, 403].includes(error.response.status)) return false;
    const read = readOf(error.options);
    const newKey = await read.limit.race(this.#keys.refresh(read.projectId, read.key ?? ''));
    if (!newKey) return false;
    read.onRepeat(await exchangeOf(error.response));
    read.key = newKey;
    return true;
  }
}

function readOf({ context }: { context: Record<string, unknown> }): KyRead {
  return context['read'] as KyRead;
}

async function fetchOverWire(request: Request, { send }: KyRead): Promise<Response> {
  const exchange = await send(new URL(request.url), Object.fromEntries(request.headers));
  const { status, retryAfter, date, body, error } = exchange;
  // A Response has no status above 599, and no body with a 205.
  const isPossible = status !== undefined && status <= 599 && status !== 205;
  const isUsable = !error || (!isOk(status) && error.kind !== 'aborted');
  if (!isPossible || !isUsable) throw new ExchangeFailedError(exchange);
  const headers = new Headers();
  if (retryAfter !== null) headers.set('retry-after', retryAfter);
  if (date !== null) headers.set('date', date);
  // Of an error status the body is left out where it broke off: its end may hide half an echo of the key.
  return new Response(error || body.length === 0 ? null : Buffer.from(body), { status, headers });
}

async function exchangeOf(response: Response): Promise<ExchangeResult> {
  const { status, headers } = response;
  const body = new Uint8Array(await response.arrayBuffer());
  const [retryAfter, date] = [headers.get('retry-after'), headers.get('date')];
  return { status, retryAfter, date, body, error: null, requestIsWhole: true };
}

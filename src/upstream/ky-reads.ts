/**
 * Reads by ky: it joins the base URL, sets the key, repeats a request once with a newer key and tells a 2xx from an
 * error status. Three things stay outside of ky, for the tests hold them. The wire is `Transport`, because ky's
 * default, fetch, tells neither how far a request got nor caps a response; so ky sees of a response its status alone.
 * The time limit is `TimeLimit`, because ky's ends with the headers. `Retry-After` is judged in `outcome.ts`, because
 * the caller waits, not the client.
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

/** What a read asks for. */
interface WantedRead {
  path: string;
  query?: Record<string, string | number> | undefined;
  projectId: string;
  limit: TimeLimit;
  /** Carries out one request on the wire. */
  send: (url: URL, headers: Record<string, string>) => Promise<ExchangeResult>;
  /** Told of a response that is repeated with a newer key. */
  onRepeat: (exchange: ExchangeResult) => void;
}

/** One read, as ky's hooks go on with it. */
interface KyRead extends WantedRead {
  /** The key in use. */
  key: string | undefined;
  /** What became of the last request. */
  exchange: ExchangeResult | undefined;
}

/** Ends the call of ky where it has nothing to judge: what became of the request is told already. */
class NoResponseError extends Error {}

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
  async read(wanted: WantedRead): Promise<{ exchange: ExchangeResult; key: string | undefined }> {
    const read: KyRead = { ...wanted, key: undefined, exchange: undefined };
    try {
      await this.#http(read.path, {
        searchParams: read.query,
        context: { read },
        fetch: (request) => fetchOverWire(request as Request, read),
      });
    } catch (error) {
      if (!(error instanceof HTTPError || error instanceof NoResponseError)) throw error;
    }
    return { exchange: read.exchange!, key: read.key };
  }

  async #setKey(request: Request, read: KyRead): Promise<void> {
    read.key ??= await read.limit.race(this.#keys.keyFor(read.projectId));
    if (read.key === undefined) {
      read.exchange = notStarted(read.limit.errorOfAbort('connecting'));
      throw new NoResponseError();
    }
    request.headers.set('authorization', `Bearer ${read.key}`);
  }

  /** Whether the key was rotated while the read was under way. */
  async #hasNewKey(error: Error): Promise<boolean> {
    if (!(error instanceof HTTPError) || ![401, 403].includes(error.response.status)) return false;
    const read = readOf(error.options);
    const newKey = await read.limit.race(this.#keys.refresh(read.projectId, read.key ?? ''));
    if (!newKey) return false;
    read.onRepeat(read.exchange!);
    read.key = newKey;
    return true;
  }
}

function readOf({ context }: { context: Record<string, unknown> }): KyRead {
  return context['read'] as KyRead;
}

async function fetchOverWire(request: Request, read: KyRead): Promise<Response> {
  const { status, error } = (read.exchange = await read.send(
    new URL(request.url),
    Object.fromEntries(request.headers),
  ));
  // A Response has no other status.
  const isPossible = status !== undefined && status >= 200 && status <= 599;
  const isUsable = !error || (!isOk(status) && error.kind !== 'aborted');
  if (!isPossible || !isUsable) throw new NoResponseError();
  return new Response(null, { status });
}

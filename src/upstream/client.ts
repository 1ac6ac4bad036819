/**
 * The operations over HTTP. ky makes the reads: it joins the URL, tells a 2xx from an error status and makes a request
 * once more with a newer key. Three things stay outside of ky, for the tests hold them. The wire is `Transport`,
 * because ky's default, fetch, tells neither how far a request got nor caps a response; so ky sees of a response its
 * status alone. The time limit is `TimeLimit`, because ky's ends with the headers. `Retry-After` is judged in
 * `outcome.ts`, because the caller waits, not the client.
 */
import ky, { HTTPError, type KyInstance } from 'ky';
import { encodeId } from '../contract.js';
import { proxyFor, type ProxySettings } from './connection.js';
import { type CallContext, type ExchangeResult, isOk, notStarted, TimeLimit } from './exchange.js';
import { type createKeySource, KeyUnavailableError, keyVersion } from './keys.js';
import {
  type RESPONSE_CLASSES,
  responseClass,
  createOutcome,
  isRejection,
  messageOutcome,
  readOutcome,
} from './outcome.js';
import { readJobRecord, readVisitorPage } from './schema.js';
import { Transport } from './transport.js';
import type { Upstream, WriteOptions } from './upstream.js';

type UpstreamOperation = 'create' | 'message' | 'get' | 'visitors';

export interface UpstreamSettings {
  /** May have a path, to which the operations' paths are added. */
  baseUrl: string;
  keys: ReturnType<typeof createKeySource>;
  /** For one call from connect to the response's last byte, a repeat with a new key included; 1 to 20,000. */
  timeoutMs: number;
  /** Statuses that the operator vouches are answered before a write is accepted. */
  notTakenStatuses: readonly number[];
  /** As the variables of these names say: a proxy for https, one for http, hosts without one. */
  proxy?: ProxySettings;
  /** Told of each request once, when it has ended; see RESPONSE_CLASSES. */
  onResponse?: (operation: UpstreamOperation, responseClass: (typeof RESPONSE_CLASSES)[number]) => void;
}

/** Caps on the bytes of a response: a record is at most 64 KiB as JSON, a page has at most 250 rows. */
const MAX_RESPONSE_BYTES = { job: 256 * 1024, page: 8 * 1024 * 1024 };
const MAX_TIMEOUT_MS = 20_000;

const HEADERS = {
  accept: 'application/json',
  'accept-encoding': 'identity', // What comes compressed all the same is decoded.
  'user-agent': 'agent-jobs',
};

/** Only reads have a signal. */
type CallOptions = WriteOptions & { signal?: AbortSignal };

interface Call {
  operation: UpstreamOperation;
  projectId: string;
  jobId?: string;
  path: string;
  query?: Record<string, string | number>;
  /** Makes the call a write. */
  prompt?: string;
}

/** A call under way: one request, and once more with a key that was rotated meanwhile. */
interface CallUnderWay {
  call: Call;
  options: CallOptions;
  limit: TimeLimit;
  /** `key` is the one in use. */
  context: CallContext;
}

/** What the exchange of a call means to its caller. */
interface Meaning<T> {
  judge: (exchange: ExchangeResult, context: CallContext) => T;
  /** Whether a 2xx so judged was of use; default: yes. */
  isReadable?: (result: T) => boolean;
}

/** The upstream over HTTP; `close` waits for writes in flight, ends reads and closes all connections. */
export function createUpstream(settings: UpstreamSettings): Upstream & { close(): Promise<void> } {
  const { notTakenStatuses: throttled } = settings;
  const caller = new Caller(settings);
  return {
    createJob: ({ projectId, prompt }, options) =>
      caller.call(options, {
        operation: 'create',
        projectId,
        prompt,
        path: jobPath(projectId),
        judge: (exchange, context) => createOutcome(exchange, context, throttled),
        isReadable: ({ kind }) => kind === 'accepted',
      }),
    sendMessage: ({ projectId, jobId, prompt }, options) =>
      caller.call(options, {
        operation: 'message',
        projectId,
        jobId,
        prompt,
        path: `${jobPath(projectId, jobId)}/message`,
        judge: (exchange, context) => messageOutcome(exchange, context, { jobId, throttled }),
        isReadable: (outcome) => outcome.kind === 'accepted' && outcome.job !== null,
      }),
    getJob: ({ projectId, jobId }, options) => {
      const parse = (body: Uint8Array) => readJobRecord(body, jobId);
      const isFinal = (status: number) => status === 404;
      return caller.call(options, {
        operation: 'get',
        projectId,
        jobId,
        path: jobPath(projectId, jobId),
        judge: (exchange, context) => readOutcome(exchange, context, { parse, isRejection: isFinal }),
      });
    },
    getVisitors: ({ projectId, ...query }, options) => {
      const isFinal = (status: number) => status >= 400 && isRejection(status);
      return caller.call(options, {
        operation: 'visitors',
        projectId,
        query,
        path: `v1/analytics/${encodeId(projectId)}/visitors`,
        judge: (exchange, context) => readOutcome(exchange, context, { parse: readVisitorPage, isRejection: isFinal }),
      });
    },
    keyVersion: (projectId) => keyVersion(settings.keys, projectId),
    close: () => caller.close(),
  };
}

function jobPath(projectId: string, jobId?: string): string {
  return `v2/agent/${encodeId(projectId)}/job${jobId === undefined ? '' : `/${encodeId(jobId)}`}`;
}

/** Ends a read of ky that has no response to judge: what became of the request is told already. */
class NoResponseError extends Error {}

class Caller {
  readonly #settings: UpstreamSettings;
  readonly #transport: Transport;
  readonly #ky: KyInstance;

  constructor(settings: UpstreamSettings) {
    this.#settings = settings;
    this.#transport = new Transport(proxyFor(settings));
    this.#ky = ky.create({ prefixUrl: settings.baseUrl, redirect: 'manual', timeout: false });
  }

  /** Makes the call within its one time limit and lets `judge` decide what the exchange means. */
  async call<T>(options: CallOptions = {}, call: Call & Meaning<T>): Promise<T> {
    options.signal?.throwIfAborted();
    const limit = new TimeLimit(Math.min(this.#settings.timeoutMs, MAX_TIMEOUT_MS), options.signal);
    const context: CallContext = { description: describeCall(call), key: undefined };
    const underWay = { call, options, limit, context };
    try {
      return this.#judge(underWay, await this.#exchange(underWay), call);
    } finally {
      limit.end();
    }
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  async #exchange(underWay: CallUnderWay): Promise<ExchangeResult> {
    const { prompt } = underWay.call;
    try {
      return await (prompt === undefined ? this.#read(underWay) : this.#write(underWay, prompt));
    } catch (error) {
      if (!(error instanceof KeyUnavailableError)) throw error;
      return notStarted({ kind: 'noKey', reason: error.message });
    }
  }

  async #read(underWay: CallUnderWay): Promise<ExchangeResult> {
    const { path, query } = underWay.call;
    let exchange: ExchangeResult | undefined;
    try {
      await this.#ky(path, {
        searchParams: query,
        retry: { limit: 1, delay: () => 0, shouldRetry: () => this.#takeNewKey(underWay, exchange) },
        fetch: async (request) => {
          exchange = await this.#send(underWay, new URL((request as Request).url), null);
          return responseOf(exchange);
        },
      });
    } catch (error) {
      if (!(error instanceof HTTPError || error instanceof NoResponseError)) throw error;
    }
    return exchange!;
  }

  async #write(underWay: CallUnderWay, prompt: string): Promise<ExchangeResult> {
    const { baseUrl } = this.#settings;
    const url = new URL(`${baseUrl}${baseUrl.endsWith('/') ? '' : '/'}${underWay.call.path}`);
    const body = Buffer.from(JSON.stringify({ prompt }));
    const exchange = await this.#send(underWay, url, body);
    return (await this.#takeNewKey(underWay, exchange)) ? this.#send(underWay, url, body) : exchange;
  }

  /** One request with the key in use; none where the time is over before there is one. */
  async #send(underWay: CallUnderWay, url: URL, body: Uint8Array | null): Promise<ExchangeResult> {
    const { call, options, limit, context } = underWay;
    context.key ??= await limit.race(this.#settings.keys.keyFor(call.projectId));
    if (context.key === undefined) return notStarted(limit.errorOfAbort('connecting'));
    const headers = { ...HEADERS, authorization: `Bearer ${context.key}` };
    const { signal, errorOfAbort } = limit;
    const { beforeLastByte } = options;
    const maxBytes = call.operation === 'visitors' ? MAX_RESPONSE_BYTES.page : MAX_RESPONSE_BYTES.job;
    return this.#transport.send({ url, headers, body }, { signal, errorOfAbort, maxBytes, beforeLastByte });
  }

  /** Whether the key was rotated while the call was under way; the rejected request was surely not accepted. */
  async #takeNewKey({ call, limit, context }: CallUnderWay, exchange: ExchangeResult | undefined): Promise<boolean> {
    if (!exchange || context.key === undefined || (exchange.status !== 401 && exchange.status !== 403)) return false;
    const newKey = await limit.race(this.#settings.keys.refresh(call.projectId, context.key));
    if (!newKey) return false;
    this.#report(call, exchange, false);
    context.key = newKey;
    return true;
  }

  #judge<T>({ call, options, context }: CallUnderWay, exchange: ExchangeResult, meaning: Meaning<T>): T {
    let isReadable = false;
    try {
      if (exchange.error?.kind === 'aborted') throw options.signal?.reason;
      // Where a response had begun, it says more.
      if (exchange.error?.cause !== undefined && exchange.status === undefined) throw exchange.error.cause;
      const result = meaning.judge(exchange, context);
      isReadable = meaning.isReadable?.(result) ?? true;
      return result;
    } finally {
      this.#report(call, exchange, isReadable);
    }
  }

  #report(call: Call, exchange: ExchangeResult, isReadable: boolean): void {
    this.#settings.onResponse?.(call.operation, responseClass(exchange, isReadable));
  }
}

/** What ky sees of a response: the status. */
function responseOf({ status, error }: ExchangeResult): Response {
  // A Response has no other status.
  const isPossible = status !== undefined && status >= 200 && status <= 599;
  const isUsable = !error || (!isOk(status) && error.kind !== 'aborted');
  if (!isPossible || !isUsable) throw new NoResponseError();
  return new Response(null, { status });
}

function describeCall({ operation, projectId, jobId }: Call): string {
  return `${operation}, project ${projectId}${jobId === undefined ? '' : `, job ${jobId}`}`;
}

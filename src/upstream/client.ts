import { encodeId } from '../contract.js';
import { proxyFor, type ProxySettings } from './connection.js';
import { type CallContext, type ExchangeResult, notStarted, TimeLimit } from './exchange.js';
import { KyReads, HEADERS } from './ky-reads.js';
import { keyVersion, KeyUnavailableError, type KeySource } from './keys.js';
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
  keys: KeySource;
  /** For one call from connect to the response's last byte, a repeat with a new key included; 1 to 20,000. */
  timeoutMs: number;
  /** 5xx statuses that the operator vouches are answered before a write is accepted. */
  notTakenStatuses: readonly number[];
  /** As the variables of these names say: a proxy for https, one for http, hosts without one. */
  proxy?: ProxySettings;
  /** Told of each request once, when it has ended; see RESPONSE_CLASSES. */
  onResponse?: (operation: UpstreamOperation, responseClass: (typeof RESPONSE_CLASSES)[number]) => void;
}

/** Caps on the bytes of a response: a record is at most 64 KiB as JSON, a page has at most 250 rows. */
const MAX_RESPONSE_BYTES = { job: 256 * 1024, page: 8 * 1024 * 1024 };
const MAX_TIMEOUT_MS = 20_000;

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
  maxBytes: number;
}

/** What the exchange of a call means to its caller. */
interface Meaning<T> {
  judge: (exchange: ExchangeResult, context: CallContext) => T;
  /** Whether a 2xx so judged was of use; default: yes. */
  isReadable?: (result: T) => boolean;
}

/** The upstream over HTTP; `close` waits for writes in flight, ends reads and closes all connections. */
export function createUpstream(settings: UpstreamSettings): Upstream & { close(): Promise<void> } {
  const { notTakenStatuses } = settings;
  const caller = new Caller(settings);
  return {
    createJob: ({ projectId, prompt }, options) =>
      caller.call(
        { operation: 'create', projectId, prompt, path: jobPath(projectId), maxBytes: MAX_RESPONSE_BYTES.job },
        options,
        {
          judge: (exchange, context) => createOutcome(exchange, context, notTakenStatuses),
          isReadable: ({ kind }) => kind === 'accepted',
        },
      ),
    sendMessage: ({ projectId, jobId, prompt }, options) => {
      const path = `${jobPath(projectId)}/${encodeId(jobId)}/message`;
      return caller.call(
        { operation: 'message', projectId, jobId, prompt, path, maxBytes: MAX_RESPONSE_BYTES.job },
        options,
        {
          judge: (exchange, context) => messageOutcome(exchange, context, { jobId, throttled: notTakenStatuses }),
          isReadable: (outcome) => outcome.kind === 'accepted' && outcome.job !== null,
        },
      );
    },
    getJob: ({ projectId, jobId }, options) => {
      const path = `${jobPath(projectId)}/${encodeId(jobId)}`;
      return caller.call({ operation: 'get', projectId, jobId, path, maxBytes: MAX_RESPONSE_BYTES.job }, options, {
        judge: (exchange, context) =>
          readOutcome(exchange, context, {
            parse: (body) => readJobRecord(body, jobId),
            isRejection: (status) => status === 404,
          }),
      });
    },
    getVisitors: ({ projectId, ...query }, options) => {
      const path = `v1/analytics/${encodeId(projectId)}/visitors`;
      return caller.call(
        { operation: 'visitors', projectId, path, query, maxBytes: MAX_RESPONSE_BYTES.page },
        options,
        {
          judge: (exchange, context) =>
            readOutcome(exchange, context, {
              parse: readVisitorPage,
              isRejection: (status) => status >= 400 && isRejection(status),
            }),
        },
      );
    },
    keyVersion: (projectId) => keyVersion(settings.keys, projectId),
    close: () => caller.close(),
  };
}

function jobPath(projectId: string): string {
  return `v2/agent/${encodeId(projectId)}/job`;
}

class Caller {
  readonly #settings: UpstreamSettings;
  readonly #timeoutMs: number;
  readonly #transport: Transport;
  readonly #reads: KyReads;

  constructor(settings: UpstreamSettings) {
    this.#settings = settings;
    this.#timeoutMs = Math.min(settings.timeoutMs, MAX_TIMEOUT_MS);
    this.#transport = new Transport(proxyFor(settings));
    this.#reads = new KyReads(settings);
  }

  /** Makes the call within its one time limit and lets `judge` decide what the exchange means. */
  async call<T>(call: Call, options: CallOptions = {}, meaning: Meaning<T>): Promise<T> {
    options.signal?.throwIfAborted();
    const limit = new TimeLimit(this.#timeoutMs, options.signal);
    try {
      return await this.#callWithin(limit, call, options, meaning);
    } finally {
      limit.end();
    }
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  async #callWithin<T>(limit: TimeLimit, call: Call, options: CallOptions, meaning: Meaning<T>): Promise<T> {
    const context: CallContext = { description: describeCall(call), key: undefined, prompt: call.prompt };
    let exchange: ExchangeResult;
    try {
      const isRead = call.prompt === undefined;
      exchange = await (isRead ? this.#read(limit, call, context) : this.#write(limit, call, options, context));
    } catch (error) {
      if (!(error instanceof KeyUnavailableError)) throw error;
      exchange = notStarted({ kind: 'noKey', reason: error.message });
    }
    return this.#judge(call, exchange, context, options, meaning);
  }

  async #read(limit: TimeLimit, call: Call, context: CallContext): Promise<ExchangeResult> {
    const { path, query, projectId, maxBytes } = call;
    const { signal, errorOfAbort } = limit;
    const { exchange, key } = await this.#reads.read({
      path,
      query,
      projectId,
      limit,
      send: (url, headers) => this.#transport.send({ url, headers, body: null }, { signal, errorOfAbort, maxBytes }),
      onRepeat: (exchange) => this.#report(call, exchange, false),
    });
    context.key = key;
    return exchange;
  }

  /** One request, repeated once with a key that was rotated meanwhile. */
  async #write(limit: TimeLimit, call: Call, options: WriteOptions, context: CallContext): Promise<ExchangeResult> {
    context.key = await limit.race(this.#settings.keys.keyFor(call.projectId));
    const exchange = await this.#send(limit, call, options, context.key);
    const newKey = await this.#newKey(limit, call, exchange, context.key);
    if (!newKey) return exchange;
    this.#report(call, exchange, false);
    context.key = newKey;
    return this.#send(limit, call, options, newKey);
  }

  #judge<T>(
    call: Call,
    exchange: ExchangeResult,
    context: CallContext,
    { signal }: CallOptions,
    meaning: Meaning<T>,
  ): T {
    let isReadable = false;
    try {
      if (exchange.error?.kind === 'aborted') throw signal?.reason;
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

  /** A key that was rotated while the call was under way; the rejected request was surely not accepted. */
  async #newKey(
    limit: TimeLimit,
    call: Call,
    { status }: ExchangeResult,
    key: string | undefined,
  ): Promise<string | null> {
    if (key === undefined || (status !== 401 && status !== 403)) return null;
    return (await limit.race(this.#settings.keys.refresh(call.projectId, key))) ?? null;
  }

  async #send(limit: TimeLimit, call: Call, options: WriteOptions, key: string | undefined): Promise<ExchangeResult> {
    if (key === undefined) return notStarted(limit.errorOfAbort('connecting'));
    const { prompt, maxBytes } = call;
    const headers = { ...HEADERS, authorization: `Bearer ${key}` };
    const body = Buffer.from(JSON.stringify({ prompt }));
    const { signal, errorOfAbort } = limit;
    const { beforeLastByte } = options;
    return this.#transport.send(
      { url: this.#urlOf(call), headers, body },
      { signal, errorOfAbort, maxBytes, beforeLastByte },
    );
  }

  #urlOf({ path }: Call): URL {
    const { baseUrl } = this.#settings;
    return new URL(`${baseUrl}${baseUrl.endsWith('/') ? '' : '/'}${path}`);
  }
}

function describeCall({ operation, projectId, jobId }: Call): string {
  return jobId === undefined
    ? `${operation}, project ${projectId}`
    : `${operation}, project ${projectId}, job ${jobId}`;
}

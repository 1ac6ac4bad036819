/**
 * The operations over HTTP. ky makes all requests: it joins the URL, adds the key, knows a 2xx from an error status and
 * sends a request once more. Three things stay outside of ky. The wire is `Wire`, because ky's default, fetch, neither
 * shows how far a request got nor caps a response; so ky gets only the status of a response. The time limit is
 * `TimeLimit`, because ky's ends with the headers. `Retry-After` is handed on, because the caller waits.
 */
import ky, { type KyInstance } from 'ky';
import { encodeId } from '../contract.js';
import { proxyFor, type ProxySettings } from './connection.js';
import { type CallContext, type ExchangeResult, ExchangeError, notStarted, TimeLimit } from './exchange.js';
import { type KeySource, KeyUnavailableError, keyVersion } from './keys.js';
import { responseClass, createOutcome, isRejection, messageOutcome, readOutcome } from './outcome.js';
import type { RESPONSE_CLASSES } from './outcome.js';
import { isPage } from './on-the-way.js';
import { readJobRecord, readVisitorPage } from './schema.js';
import type { EndStatuses } from './shown-job.js';
import type { Upstream, WriteOptions } from './upstream.js';
import { Wire } from './wire.js';

type UpstreamOperation = 'create' | 'message' | 'get' | 'visitors';

/** How the upstream is reached. */
export interface UpstreamSettings {
  /** May have a path, to which the operations' paths are added. */
  baseUrl: string;
  keys: KeySource;
  /** For one call from connect to the response's last byte, a repeat with a new key included; 1 to 20,000. */
  timeoutMs: number;
  /** Statuses that the operator vouches are answered before a write is accepted. */
  notTakenStatuses: readonly number[];
  /** Statuses that end a job beside those of the interface; default none. */
  endStatuses?: EndStatuses;
  /** The proxies, as the environment variables of these names say: for https, for http, and the hosts without one. */
  proxy?: Partial<ProxySettings>;
  /** Called once for each request, when it has ended; see RESPONSE_CLASSES. */
  onResponse?: (operation: UpstreamOperation, responseClass: (typeof RESPONSE_CLASSES)[number]) => void;
  /** Called once for each call, when it has ended: how long it took, and whether its key was refused or missing. */
  onCall?: (operation: UpstreamOperation, seconds: number, wasRefused: boolean) => void;
}

/** Caps on the bytes of a response: a record is at most 64 KiB as JSON, a page has at most 250 rows. */
const MAX_RESPONSE_BYTES = { job: 256 * 1024, page: 8 * 1024 * 1024 };
const MAX_TIMEOUT_MS = 20_000;

const SENT_HEADERS = {
  accept: 'application/json',
  'accept-encoding': 'identity', // A response that is compressed all the same is decoded.
  'user-agent': 'agent-jobs',
};

/** Only reads have a signal. */
type UpstreamCallOptions = WriteOptions & { signal?: AbortSignal };

interface UpstreamCall {
  operation: UpstreamOperation;
  projectId: string;
  jobId?: string;
  path: string;
  query?: Record<string, string | number>;
  /** Makes the call a write. */
  prompt?: string;
}

/** A call under way: one request, and perhaps once more. */
interface CallUnderWay {
  call: UpstreamCall;
  options: UpstreamCallOptions;
  limit: TimeLimit;
  /** `key` is the one in use. */
  context: CallContext;
  exchange?: ExchangeResult;
}

interface Meaning<T> {
  judge: (exchange: ExchangeResult, context: CallContext) => T;
  /** Whether the body of a 2xx was of use, by the result; default: yes. */
  isReadable?: (result: T) => boolean;
}

/** The upstream over HTTP; `close` waits for writes in flight, ends reads and closes all connections. */
export function createUpstream(settings: UpstreamSettings): Upstream & { close(): Promise<void> } {
  const { notTakenStatuses: throttled, endStatuses: ends = new Map() } = settings;
  const caller = new UpstreamCaller(settings);
  return {
    createJob: ({ projectId, prompt }, options) =>
      caller.call(options, {
        operation: 'create',
        projectId,
        prompt,
        path: jobPath(projectId),
        judge: (exchange, context) => createOutcome(exchange, context, { projectId, throttled, ends }),
        isReadable: ({ kind }) => kind === 'accepted',
      }),
    sendMessage: ({ projectId, jobId, prompt }, options) =>
      caller.call(options, {
        operation: 'message',
        projectId,
        jobId,
        prompt,
        path: `${jobPath(projectId, jobId)}/message`,
        judge: (exchange, context) => messageOutcome(exchange, context, { jobId, throttled, ends }),
        isReadable: (outcome) => outcome.kind === 'accepted' && outcome.job !== null,
      }),
    getJob: ({ projectId, jobId }, options) => {
      const parse = (body: Uint8Array) => readJobRecord(body, jobId, ends);
      const isFinal = (status: number) => status === 404 || status === 410;
      return caller.call(options, {
        operation: 'get',
        projectId,
        jobId,
        path: jobPath(projectId, jobId),
        judge: (exchange, context) => readOutcome(exchange, context, { parse, isRejection: isFinal }),
      });
    },
    getVisitors: ({ projectId, ...query }, options) => {
      const parse = (body: Uint8Array) => readVisitorPage(body, query.limit);
      return caller.call(options, {
        operation: 'visitors',
        projectId,
        query,
        path: `v1/analytics/${encodeId(projectId)}/visitors`,
        judge: (exchange, context) => readOutcome(exchange, context, { parse, isRejection }),
      });
    },
    keyVersion: (projectId) => keyVersion(settings.keys, projectId),
    close: () => caller.close(),
  };
}

function jobPath(projectId: string, jobId?: string): string {
  return `v2/agent/${encodeId(projectId)}/job${jobId === undefined ? '' : `/${encodeId(jobId)}`}`;
}

class UpstreamCaller {
  readonly #settings: UpstreamSettings;
  readonly #wire: Wire;
  readonly #ky: KyInstance;
  readonly #base: URL;

  constructor(settings: UpstreamSettings) {
    this.#settings = settings;
    this.#base = new URL(settings.baseUrl.replace(/\/?$/, '/'));
    this.#wire = new Wire(proxyFor(settings.baseUrl, settings.proxy));
    this.#ky = ky.create({ prefixUrl: settings.baseUrl, headers: SENT_HEADERS, redirect: 'manual', timeout: false });
  }

  /** Makes the call within its one time limit and lets `judge` decide what the exchange means. */
  async call<T>(options: UpstreamCallOptions = {}, call: UpstreamCall & Meaning<T>): Promise<T> {
    options.signal?.throwIfAborted();
    const limit = new TimeLimit(Math.min(this.#settings.timeoutMs, MAX_TIMEOUT_MS), options.signal);
    const context: CallContext = { description: describeCall(call), key: undefined, base: this.#base };
    const underWay = { call, options, limit, context };
    const startedAt = performance.now();
    let wasRefused = false;
    try {
      const exchange = await this.#exchange(underWay);
      wasRefused = isKeyRefused(exchange);
      return this.#judge(underWay, exchange, call);
    } finally {
      limit.end();
      this.#settings.onCall?.(call.operation, (performance.now() - startedAt) / 1_000, wasRefused);
    }
  }

  close(): Promise<void> {
    return this.#wire.close();
  }

  async #exchange(underWay: CallUnderWay): Promise<ExchangeResult> {
    const { path, query, prompt } = underWay.call;
    try {
      await this.#ky(path, {
        method: prompt === undefined ? 'get' : 'post',
        json: prompt === undefined ? undefined : { prompt },
        searchParams: query,
        hooks: { beforeRequest: [(request) => this.#authorize(request, underWay)] },
        retry: {
          limit: 1,
          methods: ['get', 'post'],
          delay: () => 0,
          shouldRetry: () => this.#isRepeated(underWay),
        },
        fetch: async (request) => {
          underWay.exchange = await this.#send(request as Request, underWay);
          return responseOf(underWay.exchange);
        },
      });
    } catch (error) {
      if (error instanceof KeyUnavailableError) return notStarted(new ExchangeError('noKey', error.message));
      if (underWay.exchange === undefined) throw error;
    }
    return underWay.exchange!;
  }

  /** Adds the key, unless the time is over before there is one. */
  async #authorize(request: Request, { call, limit, context }: CallUnderWay): Promise<void> {
    context.key ??= await limit.race(this.#settings.keys.keyFor(call.projectId));
    if (context.key !== undefined) request.headers.set('authorization', `Bearer ${context.key}`);
  }

  async #send(request: Request, { call, options, limit, exchange }: CallUnderWay): Promise<ExchangeResult> {
    if (limit.signal.aborted) return notStarted(limit.errorOfAbort('connecting'));
    const maxBytes = call.operation === 'visitors' ? MAX_RESPONSE_BYTES.page : MAX_RESPONSE_BYTES.job;
    const sent = { url: request.url, headers: Object.fromEntries(request.headers), limit, maxBytes };
    if (call.prompt === undefined) return this.#wire.read(sent, exchange !== undefined);
    return this.#wire.write(sent, Buffer.from(await request.arrayBuffer()), options.beforeLastByte);
  }

  /**
   * Whether the request is sent once more: a read that lost its connection, or a request whose key was refused because
   * it was rotated meanwhile. Such a request was surely not accepted. A page says nothing of the key.
   */
  async #isRepeated({ call, limit, context, exchange }: CallUnderWay): Promise<boolean> {
    if (!exchange || context.key === undefined || isPage(exchange)) return false;
    const { status, error } = exchange;
    if (status === 401 || status === 403) {
      const newKey = await limit.race(this.#settings.keys.refresh(call.projectId, context.key));
      if (!newKey) return false;
      context.key = newKey;
    } else if (call.prompt !== undefined || status !== undefined || error?.kind !== 'reset') return false;
    this.#report(call, exchange, false);
    return true;
  }

  #judge<T>({ call, options, context }: CallUnderWay, exchange: ExchangeResult, meaning: Meaning<T>): T {
    let isReadable = false;
    try {
      if (exchange.error?.kind === 'aborted') throw options.signal?.reason;
      // The status of a response that had begun says more than the error.
      if (exchange.error?.cause !== undefined && exchange.status === undefined) throw exchange.error.cause;
      const result = meaning.judge(exchange, context);
      isReadable = meaning.isReadable?.(result) ?? true;
      return result;
    } finally {
      this.#report(call, exchange, isReadable);
    }
  }

  #report(call: UpstreamCall, exchange: ExchangeResult, isReadable: boolean): void {
    this.#settings.onResponse?.(call.operation, responseClass(exchange, isReadable));
  }
}

/** What ky gets of a response: its status, which ky takes for a failure if it is no 2xx. */
function responseOf({ status, error }: ExchangeResult): Response {
  if (status === undefined) throw error;
  return new Response(null, { status });
}

/** Whether a call ended so for its key. A page on the way says nothing of the key. */
function isKeyRefused(exchange: ExchangeResult): boolean {
  const { status, error } = exchange;
  return error?.kind === 'noKey' || ((status === 401 || status === 403) && !isPage(exchange));
}

function describeCall({ operation, projectId, jobId }: UpstreamCall): string {
  return `${operation}, project ${projectId}${jobId === undefined ? '' : `, job ${jobId}`}`;
}

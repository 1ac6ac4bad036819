import { encodeId } from '../contract.js';
import type { ProxySettings } from './connection.js';
import { notBegun, type Ending } from './exchange.js';
import { sendByKy } from './job-request.js';
import { keyVersion, KeyUnavailableError, type KeySource } from './keys.js';
import {
  answerClass,
  createOutcome,
  isRefusal,
  messageOutcome,
  readOutcome,
  type AnswerClass,
  type Asked,
} from './outcome.js';
import { readJobRecord, readVisitorPage } from './schema.js';
import { TimeLimit } from './time-limit.js';
import { Transport, type UpstreamRequest } from './transport.js';
import type { ReadOptions, Upstream, WriteOptions } from './upstream.js';

export type UpstreamOperation = 'create' | 'message' | 'get' | 'visitors';

export interface UpstreamSettings {
  /** May have a path, to which the operations' paths are added. */
  baseUrl: string;
  keys: KeySource;
  /** For one call from connect to the answer's last byte, a repeat with a new key included; 1 to 20,000. */
  timeoutMs: number;
  /** 5xx statuses that the operator vouches are answered before a write is taken. */
  notTakenStatuses: readonly number[];
  /** As the variables of these names say: a proxy for https, one for http, hosts without one. */
  proxy?: ProxySettings;
  /** Told of each request once, when it has ended; see ANSWER_CLASSES. */
  onAnswer?: (operation: UpstreamOperation, answerClass: AnswerClass) => void;
}

/** Caps on the bytes of an answer: a record is at most 64 KiB as JSON, a page has at most 250 rows. */
const MOST_BYTES = { job: 256 * 1024, page: 8 * 1024 * 1024 };
const MOST_TIMEOUT_MS = 20_000;

interface Call {
  operation: UpstreamOperation;
  projectId: string;
  jobId?: string;
  path: string;
  query?: Record<string, string | number>;
  /** Makes the call a write. */
  prompt?: string;
  mostBytes: number;
}

/** The upstream over HTTP; `close` waits for writes in flight, ends reads and closes all connections. */
export function createUpstream(settings: UpstreamSettings): Upstream & { close(): Promise<void> } {
  const { notTakenStatuses } = settings;
  const caller = new Caller(settings);
  return {
    createJob: ({ projectId, prompt }, options) =>
      caller.call(
        { operation: 'create', projectId, prompt, path: jobPath(projectId), mostBytes: MOST_BYTES.job },
        options,
        {
          judge: (ending, asked) => createOutcome(ending, asked, notTakenStatuses),
          isReadable: ({ kind }) => kind === 'accepted',
        },
      ),
    sendMessage: ({ projectId, jobId, prompt }, options) => {
      const path = `${jobPath(projectId)}/${encodeId(jobId)}/message`;
      return caller.call({ operation: 'message', projectId, jobId, prompt, path, mostBytes: MOST_BYTES.job }, options, {
        judge: (ending, asked) => messageOutcome(ending, asked, { jobId, throttled: notTakenStatuses }),
        isReadable: (outcome) => outcome.kind === 'accepted' && outcome.job !== null,
      });
    },
    getJob: ({ projectId, jobId }, options) => {
      const path = `${jobPath(projectId)}/${encodeId(jobId)}`;
      return caller.call({ operation: 'get', projectId, jobId, path, mostBytes: MOST_BYTES.job }, options, {
        judge: (ending, asked) =>
          readOutcome(ending, asked, {
            parse: (body) => readJobRecord(body, jobId),
            isRejection: (status) => status === 404,
          }),
      });
    },
    getVisitors: ({ projectId, ...query }, options) => {
      const path = `v1/analytics/${encodeId(projectId)}/visitors`;
      return caller.call({ operation: 'visitors', projectId, path, query, mostBytes: MOST_BYTES.page }, options, {
        judge: (ending, asked) =>
          readOutcome(ending, asked, {
            parse: readVisitorPage,
            isRejection: (status) => status >= 400 && isRefusal(status),
          }),
      });
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

  constructor(settings: UpstreamSettings) {
    this.#settings = settings;
    this.#timeoutMs = Math.min(settings.timeoutMs, MOST_TIMEOUT_MS);
    this.#transport = new Transport(proxyFor(settings));
  }

  /** Makes the call within its one time limit and lets `judge` decide what its ending means. */
  async call<T>(call: Call, options: WriteOptions & ReadOptions = {}, meaning: Meaning<T>): Promise<T> {
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

  async #callWithin<T>(
    limit: TimeLimit,
    call: Call,
    options: WriteOptions & ReadOptions,
    meaning: Meaning<T>,
  ): Promise<T> {
    const asked: Asked = { description: describe(call), key: undefined, prompt: call.prompt };
    let ending: Ending;
    try {
      asked.key = await limit.race(this.#settings.keys.keyFor(call.projectId));
      ending = await this.#send(limit, call, options, asked.key);
    } catch (error) {
      if (!(error instanceof KeyUnavailableError)) throw error;
      ending = notBegun({ kind: 'noKey', reason: error.message });
    }
    const newKey = await this.#newKey(limit, call, ending, asked.key);
    if (newKey) {
      this.#report(call, ending, false);
      asked.key = newKey;
      ending = await this.#send(limit, call, options, newKey);
    }
    return this.#judge(call, ending, asked, options, meaning);
  }

  #judge<T>(call: Call, ending: Ending, asked: Asked, { signal }: ReadOptions, meaning: Meaning<T>): T {
    let isReadable = false;
    try {
      if (ending.trouble?.kind === 'aborted') throw signal?.reason;
      // Where an answer had begun, it says more.
      if (ending.trouble?.cause !== undefined && ending.status === undefined) throw ending.trouble.cause;
      const result = meaning.judge(ending, asked);
      isReadable = meaning.isReadable?.(result) ?? true;
      return result;
    } finally {
      this.#report(call, ending, isReadable);
    }
  }

  #report(call: Call, ending: Ending, isReadable: boolean): void {
    this.#settings.onAnswer?.(call.operation, answerClass(ending, isReadable));
  }

  /** A key that was rotated while the call was under way; the refused request was surely not taken. */
  async #newKey(limit: TimeLimit, call: Call, { status }: Ending, key: string | undefined): Promise<string | null> {
    if (key === undefined || (status !== 401 && status !== 403)) return null;
    return (await limit.race(this.#settings.keys.refresh(call.projectId, key))) ?? null;
  }

  async #send(limit: TimeLimit, call: Call, options: WriteOptions, key: string | undefined): Promise<Ending> {
    if (key === undefined) return notBegun(limit.troubleOfAbort('connecting'));
    const headers = {
      accept: 'application/json',
      'accept-encoding': 'identity', // What is compressed would not be read: a create so answered is unknown.
      authorization: `Bearer ${key}`,
      'user-agent': 'agent-jobs',
    };
    const url = this.#urlOf(call);
    const { prompt, mostBytes } = call;
    const { signal, troubleOfAbort } = limit;
    const { beforeLastByte } = options;
    const send = (request: UpstreamRequest) =>
      this.#transport.send(request, { signal, troubleOfAbort, mostBytes, beforeLastByte });
    // A page is read thousands of times in a row: a Request and its signals would cost as much as the exchange, and stay until a
    // full collection.
    return call.operation === 'visitors'
      ? send({ url, headers, body: null })
      : sendByKy({ url, headers, prompt }, send);
  }

  #urlOf({ path, query = {} }: Call): URL {
    const { baseUrl } = this.#settings;
    const url = new URL(`${baseUrl}${baseUrl.endsWith('/') ? '' : '/'}${path}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
    return url;
  }
}

/** `HTTP_PROXY` is for http alone; undici would take it for https too. */
function proxyFor({ baseUrl, proxy = {} }: UpstreamSettings): ProxySettings {
  if (new URL(baseUrl).protocol !== 'https:') return proxy;
  const { httpProxy: _, ...httpsAlone } = proxy;
  return httpsAlone;
}

/** What the ending of a call means to its caller. */
interface Meaning<T> {
  judge: (ending: Ending, asked: Asked) => T;
  /** Whether a 2xx so judged was of use; default: yes. */
  isReadable?: (result: T) => boolean;
}

function describe({ operation, projectId, jobId }: Call): string {
  return jobId === undefined
    ? `${operation}, project ${projectId}`
    : `${operation}, project ${projectId}, job ${jobId}`;
}

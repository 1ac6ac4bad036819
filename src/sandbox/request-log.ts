/** What the sandbox has seen: counts of all requests, and the last ones in full. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { UPSTREAM_OPERATIONS, type Operation, type OperationRoute } from './http.js';

/** Requests of one operation. */
export interface OperationCount {
  requests: number;
  /** Writes that took effect; reads with status 200. */
  effects: number;
  /** By HTTP status; requests without a whole response by kind of fault, or as `aborted`. */
  responses: Record<string, number>;
}

/** By operation; requests that are none of the interface's count as `other`. */
export type OperationCounts = Record<Operation | 'other', OperationCount>;

/** One request as it was seen; values of headers that carry credentials are left out. */
export interface RequestRecord {
  number: number;
  /** ISO 8601, real time. */
  at: string;
  method: string;
  /** As it came, with its query. */
  path: string;
  operation: Operation | null;
  projectId: string | null;
  jobId: string | null;
  headers: IncomingHttpHeaders;
  bodyBytes: number;
  tookEffect: boolean;
  /** HTTP status as text, kind of fault, or `aborted`; null while there is none. */
  response: string | null;
}

const SECRET_HEADERS = ['authorization', 'proxy-authorization', 'cookie', 'x-api-key'];

/** The log; its memory does not grow with the number of requests. */
export class RequestLog {
  readonly counts = Object.fromEntries(
    [...UPSTREAM_OPERATIONS, 'other'].map((name) => [name, { requests: 0, effects: 0, responses: {} }]),
  ) as OperationCounts;
  readonly #recent: RequestRecord[] = [];
  readonly #kept: number;
  #total = 0;

  constructor(kept: number) {
    this.#kept = kept;
  }

  /** Counts a request and records it; `route` is missing if it is none of the interface's. */
  open({ method = '', url = '', headers }: IncomingMessage, route?: OperationRoute): RequestRecord {
    const request: RequestRecord = {
      number: ++this.#total,
      at: new Date().toISOString(),
      method,
      path: url,
      operation: route?.operation ?? null,
      projectId: route?.projectId ?? null,
      jobId: route?.jobId ?? null,
      headers,
      bodyBytes: 0,
      tookEffect: false,
      response: null,
    };
    this.#recent[(request.number - 1) % this.#kept] = request;
    this.counts[request.operation ?? 'other'].requests++;
    return request;
  }

  ended(request: RequestRecord, response: string): void {
    request.response = response;
    const count = this.counts[request.operation ?? 'other'];
    count.responses[response] = (count.responses[response] ?? 0) + 1;
    if (request.tookEffect) count.effects++;
  }

  /** The last requests, oldest first. */
  requests(): RequestRecord[] {
    const shown = ([name, value]: [string, unknown]) => [name, SECRET_HEADERS.includes(name) ? '(set)' : value];
    return this.#recent
      .toSorted((a, b) => a.number - b.number)
      .map((request) => ({ ...request, headers: Object.fromEntries(Object.entries(request.headers).map(shown)) }));
  }
}

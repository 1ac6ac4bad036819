/** What the sandbox has seen: requests, and the connections on which they came. */
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { OPERATIONS, resetConnection, type Operation, type OperationRoute } from './http.js';
import type { Faults } from './armed-faults.js';

/** Requests of one operation. */
export interface OperationCount {
  requests: number;
  /** Writes that took effect; reads with status 200. */
  effects: number;
  /** By HTTP status; requests without a whole response by kind of fault, or as `aborted`. */
  responses: Record<string, number>;
}

/** One request as it was seen; values of headers that carry credentials are left out. */
export interface RequestRecord {
  number: number;
  /** ISO 8601, real time. */
  at: string;
  /** Connections are numbered from 1 in the order opened. */
  connection: number;
  /** 1 for the first request on its connection. */
  requestOnConnection: number;
  method: string;
  /** As it came, with its query. */
  path: string;
  operation: Operation | null;
  projectId: string | null;
  jobId: string | null;
  headers: Record<string, string>;
  bodyBytes: number;
  tookEffect: boolean;
  /** HTTP status as text, kind of fault, or `aborted`; null while there is none. */
  response: string | null;
}

/** A request under way; its headers are converted only when the log is read. */
export type OpenRequest = Omit<RequestRecord, 'at' | 'headers'> & { at: number; rawHeaders: string[] };

const SECRET_HEADERS = new Set(['authorization', 'proxy-authorization', 'cookie', 'x-api-key']);

/** Counts of everything and the last requests in full; memory does not grow with the number of requests. */
export class RequestLog {
  readonly #operations = new Map<string, OperationCount>();
  readonly #recent: OpenRequest[] = [];
  readonly #kept: number;
  #total = 0;

  constructor(kept: number) {
    this.#kept = kept;
  }

  /** Counts a request and records it; `route` is missing where it is none of the interface's. */
  open({ method = '', url = '', rawHeaders }: IncomingMessage, on: Connection, route?: OperationRoute): OpenRequest {
    const request: OpenRequest = {
      number: ++this.#total,
      at: Date.now(),
      connection: on.number,
      requestOnConnection: on.requests,
      method,
      path: url,
      rawHeaders,
      operation: route?.operation ?? null,
      projectId: route?.projectId ?? null,
      jobId: route?.jobId ?? null,
      bodyBytes: 0,
      tookEffect: false,
      response: null,
    };
    if (this.#kept > 0) this.#recent[(request.number - 1) % this.#kept] = request;
    this.#countOf(request.operation ?? 'other').requests++;
    return request;
  }

  /** Records how a request ended. */
  ended(request: OpenRequest, response: string): void {
    request.response = response;
    const count = this.#countOf(request.operation ?? 'other');
    count.responses[response] = (count.responses[response] ?? 0) + 1;
    if (request.tookEffect) count.effects++;
  }

  /** By operation; requests that are none of the interface's count as `other`. */
  counts(): Record<Operation | 'other', OperationCount> {
    const names = [...OPERATIONS, 'other'] as const;
    return Object.fromEntries(names.map((name) => [name, this.#countOf(name)])) as Record<
      Operation | 'other',
      OperationCount
    >;
  }

  reset(): void {
    this.#operations.clear();
  }

  /** The last requests, oldest first. */
  requests(limit: number): RequestRecord[] {
    const sorted = this.#recent.toSorted((a, b) => a.number - b.number);
    return sorted.slice(Math.max(0, sorted.length - limit)).map(recordOf);
  }

  #countOf(name: string): OperationCount {
    let count = this.#operations.get(name);
    if (!count) this.#operations.set(name, (count = { requests: 0, effects: 0, responses: {} }));
    return count;
  }
}

function recordOf({ rawHeaders, ...request }: OpenRequest): RequestRecord {
  const headers: Record<string, string> = {};
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    headers[name] = SECRET_HEADERS.has(name) ? '(set)' : (rawHeaders[i + 1] ?? '');
  }
  return { ...request, at: new Date(request.at).toISOString(), headers };
}

export interface ConnectionCount {
  /** Connections of the upstream's callers since the start; those that only carry control requests do not count. */
  opened: number;
  /** Of these, reset before anything was read. */
  reset: number;
  /** Open now, control included. */
  open: number;
}

interface Connection {
  number: number;
  requests: number;
}

/** Numbers the connections of a server and resets those that a fault at `connect` picks. */
export class Connections {
  readonly #known = new WeakMap<Socket, Connection>();
  readonly #sockets = new Set<Socket>();
  #opened = 0;
  #reset = 0;

  constructor(server: Server, faults: Faults) {
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      if (!faults.pick('connect')) return;
      this.#opened++;
      this.#reset++;
      resetConnection(socket);
    });
  }

  /** Counts one more request of the interface on its connection. */
  use(socket: Socket): Connection {
    let connection = this.#known.get(socket);
    if (!connection) this.#known.set(socket, (connection = { number: ++this.#opened, requests: 0 }));
    connection.requests++;
    return connection;
  }

  counts(): ConnectionCount {
    return { opened: this.#opened, reset: this.#reset, open: this.#sockets.size };
  }

  /** Resets every connection, those of hanging requests included. */
  resetAll(): void {
    for (const socket of this.#sockets) resetConnection(socket);
  }
}

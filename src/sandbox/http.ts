/** HTTP of the sandbox: which operation a request is for, its body, and its response. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A whole HTTP response, not yet sent. */
export interface HttpResponse {
  status: number;
  /** JSON text. */
  body: string;
  headers?: Record<string, string>;
}

export function jsonResponse(status: number, value: unknown, headers?: Record<string, string>): HttpResponse {
  return headers ? { status, body: JSON.stringify(value), headers } : { status, body: JSON.stringify(value) };
}

/** An error in the form of its operation: analytics errors have `details`, agent errors have none. */
export function errorResponse(
  operation: Operation | undefined,
  status: number,
  error: string,
  options: { details?: string[]; headers?: Record<string, string> } = {},
): HttpResponse {
  const details = (options.details ?? [error]).map((message) => ({ message }));
  return jsonResponse(status, operation === 'visitors' ? { error, details } : { error }, options.headers);
}

/** Sends a whole response. */
export function sendResponse(serverResponse: ServerResponse, response: HttpResponse): void {
  writeHead(serverResponse, response);
  serverResponse.end(response.body);
}

/** Sends status and headers, which declare the length of the body. */
export function writeHead(serverResponse: ServerResponse, response: HttpResponse): void {
  serverResponse.writeHead(response.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(response.body),
    ...response.headers,
  });
}

/** Resets a connection (TCP RST), so that the peer sees an error and not the end of the response. */
export function resetConnection(socket: Socket | null): void {
  socket?.resetAndDestroy();
}

/** Bounds the memory of one request; the largest valid prompt is 1 MiB of JSON. */
const MAX_BODY_BYTES = 8 * 1024 * 1024;

/** The whole body; undefined where the peer closed before its end. `onBytes` gets the bytes read so far. */
export function readBody(
  request: IncomingMessage,
  onBytes?: (bytes: number) => void,
): Promise<Buffer | 'too large' | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      onBytes?.(bytes);
      if (bytes > MAX_BODY_BYTES) resolve('too large');
      else chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    request.on('error', () => resolve(undefined));
    request.on('close', () => resolve(undefined));
  });
}

export const OPERATIONS = ['create', 'message', 'get', 'visitors'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** What a request asks for; ids are decoded from single path segments. */
export type Route =
  | { kind: 'operation'; operation: 'create'; projectId: string }
  | { kind: 'operation'; operation: 'get' | 'message'; projectId: string; jobId: string }
  | { kind: 'operation'; operation: 'visitors'; projectId: string; query: URLSearchParams }
  | { kind: 'control'; command: string }
  | { kind: 'redirectTarget' }
  | { kind: 'unknown' };

const UNKNOWN: Route = { kind: 'unknown' };

function decode(segment: string | undefined): string | undefined {
  if (segment === undefined || segment === '') return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

function agentRoute(method: string, segments: string[]): Route {
  const [, , , project, noun, job, message] = segments;
  const projectId = decode(project);
  if (projectId === undefined || noun !== 'job') return UNKNOWN;
  if (segments.length === 5 && method === 'POST') {
    return { kind: 'operation', operation: 'create', projectId };
  }
  const jobId = decode(job);
  if (jobId === undefined) return UNKNOWN;
  if (segments.length === 6 && method === 'GET') {
    return { kind: 'operation', operation: 'get', projectId, jobId };
  }
  if (segments.length === 7 && message === 'message' && method === 'POST') {
    return { kind: 'operation', operation: 'message', projectId, jobId };
  }
  return UNKNOWN;
}

function visitorsRoute(method: string, segments: string[], search: string): Route {
  const projectId = decode(segments[3]);
  if (projectId === undefined || segments.length !== 5 || segments[4] !== 'visitors' || method !== 'GET')
    return UNKNOWN;
  return { kind: 'operation', operation: 'visitors', projectId, query: new URLSearchParams(search) };
}

/** Reads a request line as it came: nothing is normalised, so an encoded `../x` stays one segment. */
export function parseRoute(method: string, url: string): Route {
  const queryAt = url.indexOf('?');
  const path = queryAt < 0 ? url : url.slice(0, queryAt);
  const segments = path.split('/');
  if (segments[1] === '__sandbox') {
    return segments[2] === 'redirect-target'
      ? { kind: 'redirectTarget' }
      : { kind: 'control', command: segments.slice(2).join('/') };
  }
  if (segments[1] === 'v2' && segments[2] === 'agent') return agentRoute(method, segments);
  if (segments[1] === 'v1' && segments[2] === 'analytics') {
    return visitorsRoute(method, segments, queryAt < 0 ? '' : url.slice(queryAt + 1));
  }
  return UNKNOWN;
}

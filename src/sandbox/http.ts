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

/** What a request of the interface asks for; ids are decoded from single path segments. */
export interface OperationRoute {
  kind: 'operation';
  operation: Operation;
  projectId: string;
  jobId: string | undefined;
  query: URLSearchParams;
}

type Route = OperationRoute | { kind: 'control'; command: string } | { kind: 'redirectTarget' } | { kind: 'unknown' };

const INTERFACE: readonly [Operation, method: string, path: RegExp][] = [
  ['create', 'POST', /^\/v2\/agent\/([^/]+)\/job$/],
  ['message', 'POST', /^\/v2\/agent\/([^/]+)\/job\/([^/]+)\/message$/],
  ['get', 'GET', /^\/v2\/agent\/([^/]+)\/job\/([^/]+)$/],
  ['visitors', 'GET', /^\/v1\/analytics\/([^/]+)\/visitors$/],
];
const CONTROL = '/__sandbox/';

/** Reads a request line as it came: nothing is normalised, so an encoded `../x` stays one segment. */
export function parseRoute(method: string, url: string): Route {
  const [path = '', ...search] = url.split('?');
  if (path === `${CONTROL}redirect-target`) return { kind: 'redirectTarget' };
  if (path.startsWith(CONTROL)) return { kind: 'control', command: path.slice(CONTROL.length) };
  for (const [operation, ownMethod, pattern] of INTERFACE) {
    const segments = method === ownMethod ? pattern.exec(path)?.slice(1) : undefined;
    if (segments && segments.every(isDecodable)) {
      const [projectId = '', jobId] = segments.map(decodeURIComponent);
      return { kind: 'operation', operation, projectId, jobId, query: new URLSearchParams(search.join('?')) };
    }
  }
  return { kind: 'unknown' };
}

function isDecodable(segment: string): boolean {
  try {
    decodeURIComponent(segment);
    return true;
  } catch {
    return false;
  }
}

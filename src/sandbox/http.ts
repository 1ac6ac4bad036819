/** HTTP of the sandbox: which operation a request is for, its body, and its response. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** A whole HTTP response, not yet sent. */
export interface HttpResponse {
  status: number;
  body: string;
  headers?: Record<string, string>;
}

/** A response with a JSON body. */
export function jsonResponse(status: number, value: unknown, headers: Record<string, string> = {}): HttpResponse {
  return { status, body: JSON.stringify(value), headers };
}

/** An error in the form of its operation: analytics errors have `details`, agent errors have none. */
export function errorResponse(
  operation: Operation | undefined,
  status: number,
  error: string,
  { details = [error], headers = {} }: { details?: string[]; headers?: Record<string, string> } = {},
): HttpResponse {
  const more = operation === 'visitors' && { details: details.map((message) => ({ message })) };
  return jsonResponse(status, { error, ...more }, headers);
}

/** Sends a whole response. */
export function sendResponse(serverResponse: ServerResponse, response: HttpResponse): void {
  writeHead(serverResponse, response);
  serverResponse.end(response.body);
}

/** Sends the headers, which promise the whole body, and its first half; `then` runs when these have left. */
export function sendHalf(serverResponse: ServerResponse, response: HttpResponse, then?: () => void): void {
  writeHead(serverResponse, response);
  const body = Buffer.from(response.body);
  serverResponse.write(body.subarray(0, body.length >> 1), then);
}

function writeHead(serverResponse: ServerResponse, { status, body, headers }: HttpResponse): void {
  const own = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  serverResponse.writeHead(status, { ...own, ...headers });
}

/** The whole body; undefined if the peer closed before its end. */
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}

/** The operations of the interface. */
export const UPSTREAM_OPERATIONS = ['create', 'message', 'get', 'visitors'] as const;
/** One of them. */
export type Operation = (typeof UPSTREAM_OPERATIONS)[number];

/** What a request of the interface asks for; ids are decoded from single path segments. */
export interface OperationRoute {
  operation: Operation;
  projectId: string;
  jobId: string | undefined;
  query: URLSearchParams;
}

const INTERFACE: readonly [Operation, method: string, path: RegExp][] = [
  ['create', 'POST', /^\/v2\/agent\/([^/]+)\/job$/],
  ['message', 'POST', /^\/v2\/agent\/([^/]+)\/job\/([^/]+)\/message$/],
  ['get', 'GET', /^\/v2\/agent\/([^/]+)\/job\/([^/]+)$/],
  ['visitors', 'GET', /^\/v1\/analytics\/([^/]+)\/visitors$/],
];

/** Reads a request line as it came: nothing is normalised, so an encoded `../x` stays one segment. */
export function parseRoute({ method, url = '' }: IncomingMessage): OperationRoute | undefined {
  const [path = '', ...search] = url.split('?');
  for (const [operation, ownMethod, pattern] of INTERFACE) {
    const segments = method === ownMethod ? pattern.exec(path)?.slice(1) : undefined;
    if (!segments) continue;
    try {
      const [projectId = '', jobId] = segments.map(decodeURIComponent);
      return { operation, projectId, jobId, query: new URLSearchParams(search.join('?')) };
    } catch {
      return undefined;
    }
  }
  return undefined;
}

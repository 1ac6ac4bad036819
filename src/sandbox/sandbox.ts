/** The stand-in for the upstream: a real HTTP server with scripted jobs, made-up visitors and faults. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ApiKey, ApiKeys, RateLimiter, type RateLimits, SANDBOX_API_KEY } from './access.js';
import { CONTROL_PATH, controlCommands, controlInProcess, handleControl } from './control.js';
import type { SandboxControl, SandboxParts } from './control.js';
import { Faults, injectFault, isAfterEffect, resetEarly } from './faults.js';
import { errorResponse, jsonResponse, parseRoute, readBody, sendResponse } from './http.js';
import type { HttpResponse, Operation, OperationRoute } from './http.js';
import { Jobs, type JobScript } from './jobs.js';
import { RequestLog, type RequestRecord } from './request-log.js';
import { Visitors, type VisitorSettings } from './visitors.js';

/** How to start a sandbox. */
export interface SandboxOptions {
  /** Default 0: any free port. */
  port?: number;
  /** Default 127.0.0.1. The control has no key of its own: bind to loopback or to a network you trust. */
  host?: string;
  /** The accepted key or keys; default `SANDBOX_API_KEY`. */
  apiKey?: string | ApiKey[];
  /** An append-only JSON Lines file: jobs and messages outlive the process, however it ends. */
  dataFile?: string;
  /** The script of jobs that no script rule matches. */
  script?: JobScript;
  /** Off unless set. */
  rateLimits?: RateLimits;
  visitors?: VisitorSettings;
  /** The time in milliseconds since 1970; default: the system's. */
  clock?: () => number;
  /** How many of the last requests `requests()` returns; default 1000. */
  keptRequests?: number;
  /** Receives one line per request: method, path, response. */
  log?: (line: string) => void;
}

/** A running sandbox upstream with its control. */
export interface Sandbox extends SandboxControl {
  /** Base URL, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** The first accepted key. */
  readonly apiKey: string;
  /** Stops the server and resets all connections, those of hanging requests included; closing twice is harmless. */
  close(): Promise<void>;
}

/** Starts a sandbox. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { apiKey = SANDBOX_API_KEY, clock: now = Date.now, host = '127.0.0.1' } = options;
  const accepted = typeof apiKey === 'string' ? [apiKey] : apiKey;
  const sockets = new Set<Socket>();
  const parts: SandboxParts = {
    now,
    faults: new Faults(),
    jobs: new Jobs({ now, script: options.script ?? {}, journal: options.dataFile }),
    visitors: new Visitors(options.visitors ?? {}),
    keys: new ApiKeys(accepted),
    limiter: new RateLimiter(options.rateLimits ?? {}),
    requestLog: new RequestLog(options.keptRequests ?? 1_000),
    openConnections: () => sockets.size,
    log: options.log ?? (() => {}),
  };
  const commands = controlCommands(parts);
  const server = createServer((request, serverResponse) => {
    serverResponse.on('error', () => {});
    const handled = request.url?.startsWith(CONTROL_PATH)
      ? handleControl(commands, request, serverResponse)
      : handleRequest(parts, parseRoute(request), request, serverResponse);
    handled.catch((error: unknown) => fail(serverResponse, error));
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    if (parts.faults.pick('connect')) socket.resetAndDestroy();
  });
  server.listen(options.port ?? 0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.resetAndDestroy();
    await closed;
  };
  let stopping: Promise<void> | undefined;
  const first = accepted[0] ?? '';
  return {
    ...controlInProcess(commands),
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    apiKey: typeof first === 'string' ? first : first.key,
    close: () => (stopping ??= stop()),
  };
}

/** Reports a failure of the sandbox itself, such as a full disk, as a 500 instead of ending the process. */
function fail(serverResponse: ServerResponse, error: unknown): void {
  if (serverResponse.headersSent) serverResponse.destroy();
  else sendResponse(serverResponse, errorResponse(undefined, 500, `Sandbox failed: ${String(error)}`));
}

/** Handles one request; `route` is missing if it is none of the interface's. */
async function handleRequest(
  parts: SandboxParts,
  route: OperationRoute | undefined,
  request: IncomingMessage,
  serverResponse: ServerResponse,
): Promise<void> {
  const { faults, requestLog } = parts;
  const entry = requestLog.open(request, route);
  if (!route) {
    request.resume();
    return finish(parts, entry, serverResponse, errorResponse(undefined, 404, 'Not found'));
  }
  const early = faults.pick('headers', route);
  if (early) {
    resetEarly(early, request);
    return end(parts, entry, 'reset');
  }
  const body = await readBody(request);
  if (body === undefined) return end(parts, entry, 'aborted');
  entry.bodyBytes = body.length;
  const prompt = readPrompt(body);
  const fault = faults.pick('request', { ...route, prompt });
  if (fault?.kind === 'delay' && !isAfterEffect(fault)) await sleep(fault.delayMs);
  const hasEffect = !fault || fault.kind === 'delay' || isAfterEffect(fault);
  const response = hasEffect
    ? respond(parts, route, request, prompt)
    : errorResponse(route.operation, 502, 'Bad gateway');
  entry.tookEffect = hasEffect && response.status < 300;
  // A success after the effect must not stand for a request that failed.
  const hasFailed = fault?.kind === 'status' && fault.status < 300 && isAfterEffect(fault) && response.status >= 300;
  if (!fault || hasFailed) return finish(parts, entry, serverResponse, response);
  await injectFault(fault, route.operation, response, serverResponse);
  end(parts, entry, fault.kind === 'status' || fault.kind === 'delay' ? String(serverResponse.statusCode) : fault.kind);
}

function finish(
  parts: SandboxParts,
  entry: RequestRecord,
  serverResponse: ServerResponse,
  response: HttpResponse,
): void {
  end(parts, entry, String(response.status));
  sendResponse(serverResponse, response);
}

function end({ requestLog, log }: SandboxParts, entry: RequestRecord, response: string): void {
  requestLog.ended(entry, response);
  log(`${entry.method} ${entry.path} ${response}`);
}

/** The prompt of a body, or undefined if it has none. */
function readPrompt(body: Buffer): string | undefined {
  try {
    const { prompt } = JSON.parse(body.toString('utf8')) as { prompt?: unknown };
    return typeof prompt === 'string' && prompt !== '' ? prompt : undefined;
  } catch {
    return undefined;
  }
}

/** What the upstream does and how it responds, without faults, in one synchronous step. */
function respond(
  { now, jobs, keys, limiter, visitors }: SandboxParts,
  { operation, projectId, jobId = '', query }: OperationRoute,
  { headers }: IncomingMessage,
  prompt: string | undefined,
): HttpResponse {
  const refusal = keys.refuse(headers.authorization, operation, projectId);
  if (refusal) return refusal;
  const retryAfter = limiter.throttle(operation, projectId, now());
  if (retryAfter) return errorResponse(operation, 429, 'Rate limit exceeded', { headers: retryAfter });
  if (operation === 'visitors') return visitors.page(projectId, query);
  if (operation === 'get') return found(operation, jobs.get(projectId, jobId));
  if (!headers['content-type']?.startsWith('application/json')) {
    return errorResponse(operation, 400, 'Content-Type must be application/json');
  }
  if (prompt === undefined) return errorResponse(operation, 400, 'prompt must be a text that is not empty');
  if (operation === 'create') return jsonResponse(201, jobs.create(projectId, prompt));
  return found(operation, jobs.message(projectId, jobId, prompt));
}

function found(operation: Operation, record: object | undefined): HttpResponse {
  return record ? jsonResponse(200, record) : errorResponse(operation, 404, 'Agent job not found');
}

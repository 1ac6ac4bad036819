import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import type { ApiKeys, RateLimiter } from './access.js';
import { effectOf, type FaultFacts, type FaultRule, type Faults, isWholeResponse } from './armed-faults.js';
import type { SandboxClock } from './clock.js';
import {
  errorResponse,
  type HttpResponse,
  jsonResponse,
  type Operation,
  type OperationRoute,
  readBody,
  resetConnection,
  sendResponse,
  writeHead,
} from './http.js';
import type { Jobs } from './jobs.js';
import type { Connections, OpenRequest, RequestLog } from './request-log.js';
import type { Visitors } from './visitors.js';

/** What a sandbox is composed of; its requests and its control reach all of it. */
export interface SandboxParts {
  clock: SandboxClock;
  jobs: Jobs;
  visitors: Visitors;
  keys: ApiKeys;
  limiter: RateLimiter;
  faults: Faults;
  requestLog: RequestLog;
  connections: Connections;
  /** Where redirects lead by default. */
  redirectTarget: { url: string; visits: number };
  closeIdleConnections: () => void;
  log: (line: string) => void;
}

/** Handles a request of the interface from its headers to its response, with the faults injected on the way. */
export class RequestHandler {
  readonly #parts: SandboxParts;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
  }

  /** Answers a request that is none of the interface's. */
  unknown(request: IncomingMessage, serverResponse: ServerResponse): void {
    const entry = this.#open(request);
    request.resume();
    this.#finish(entry, serverResponse, errorResponse(undefined, 404, 'Not found'));
  }

  async handle(route: OperationRoute, request: IncomingMessage, serverResponse: ServerResponse): Promise<void> {
    const { faults, redirectTarget } = this.#parts;
    const { operation } = route;
    const entry = this.#open(request, route);
    const facts: FaultFacts = { ...route, prompt: undefined };
    const early = faults.pick('head', facts);
    if (early) return this.#resetEarly(early, entry, request);
    const body = await readBody(request, (bytes) => (entry.bodyBytes = bytes));
    if (body === undefined) return this.#end(entry, 'aborted');
    if (body === 'too large') {
      return this.#finish(entry, serverResponse, errorResponse(operation, 413, 'Body too large'));
    }
    if (faults.wantsPrompts) facts.prompt = readPrompt(body);
    const fault = faults.pick('whole', facts);
    const hasEffect = fault === undefined || effectOf(fault) === 'after' || fault.kind === 'delay';
    if (fault?.kind === 'delay' && effectOf(fault) === 'before') await sleep(fault.delayMs);
    const response = hasEffect ? respond(this.#parts, route, request, body) : undefined;
    entry.tookEffect = response !== undefined && response.status < 300;
    if (!fault) return this.#finish(entry, serverResponse, response!);
    const faulty = response ?? errorResponse(operation, 502, 'Bad gateway');
    await injectFault(fault, { serverResponse, response: faulty, operation, redirectTargetUrl: redirectTarget.url });
    this.#end(entry, isWholeResponse(fault) ? String(serverResponse.statusCode) : fault.kind);
  }

  #open(request: IncomingMessage, route?: OperationRoute): OpenRequest {
    const { requestLog, connections } = this.#parts;
    return requestLog.open(request, connections.use(request.socket), route);
  }

  #resetEarly(fault: FaultRule, entry: OpenRequest, request: IncomingMessage): void {
    const reset = () => resetConnection(request.socket);
    request.on('error', () => {});
    if (fault.kind === 'reset' && fault.at === 'body') request.once('data', reset).once('end', reset);
    else reset();
    this.#end(entry, 'reset');
  }

  #finish(entry: OpenRequest, serverResponse: ServerResponse, response: HttpResponse): void {
    this.#end(entry, String(response.status));
    sendResponse(serverResponse, response);
  }

  #end(entry: OpenRequest, response: string): void {
    this.#parts.requestLog.ended(entry, response);
    this.#parts.log(`${entry.method} ${entry.path} ${response}`);
  }
}

const promptSchema = z.object({ prompt: z.string().min(1) });

/** The prompt of a body, or undefined where it has none. */
function readPrompt(body: Buffer): string | undefined {
  try {
    return promptSchema.safeParse(JSON.parse(body.toString('utf8'))).data?.prompt;
  } catch {
    return undefined;
  }
}

/** What the upstream does and how it responds, without faults, in one synchronous step. */
function respond(
  { clock, jobs, keys, limiter, visitors }: SandboxParts,
  { operation, projectId, jobId = '', query }: OperationRoute,
  { headers }: IncomingMessage,
  body: Buffer,
): HttpResponse {
  const refusal = keys.refuse(headers.authorization, operation, projectId, clock.now());
  if (refusal) return refusal;
  const retryAfter = limiter.refuse(operation, projectId, clock.now());
  if (retryAfter) return errorResponse(operation, 429, 'Rate limit exceeded', { headers: retryAfter });
  if (operation === 'visitors') return visitors.page(projectId, query);
  if (operation === 'get') return found('get', jobs.get(projectId, jobId));
  if (!headers['content-type']?.startsWith('application/json')) {
    return errorResponse(operation, 400, 'Content-Type must be application/json');
  }
  const prompt = readPrompt(body);
  if (prompt === undefined) return errorResponse(operation, 400, 'prompt must be a text that is not empty');
  if (operation === 'create') return jsonResponse(201, jobs.create(projectId, prompt));
  return found('message', jobs.message(projectId, jobId, prompt));
}

function found(operation: 'get' | 'message', record: object | undefined): HttpResponse {
  return record ? jsonResponse(200, record) : errorResponse(operation, 404, 'Agent job not found');
}

// Carries a fault out: what the sandbox does to the response of a request that got one.

/** The request for which a fault is injected, and its response without the fault. */
interface InjectionContext extends Pick<OperationRoute, 'operation'> {
  serverResponse: ServerResponse;
  response: HttpResponse;
  redirectTargetUrl: string;
}

/** Responds as the fault says. A connection that the fault leaves open stays open until either side closes it. */
async function injectFault(rule: FaultRule, context: InjectionContext): Promise<void> {
  const { serverResponse } = context;
  const response = { ...context.response };
  if ('status' in rule && rule.status !== undefined) response.status = rule.status;
  switch (rule.kind) {
    case 'hang':
      return;
    case 'reset':
      if (rule.at !== 'response') return resetConnection(serverResponse.socket);
      return sendHalf(serverResponse, response, () => resetConnection(serverResponse.socket));
    case 'delay':
      if (rule.effect === 'after') await sleep(rule.delayMs);
      return sendResponse(serverResponse, response);
    case 'slow':
      return dribble(serverResponse, response, rule.chunkBytes ?? 16, rule.chunkDelayMs ?? 20);
    case 'stallBody':
      return sendHalf(serverResponse, response);
    case 'truncated':
      return sendHalf(serverResponse, response, () => serverResponse.socket?.end());
    case 'oversized':
      return sendEndlessly(serverResponse, response);
    case 'closeAfter':
      return closeAfterResponse(serverResponse, response, rule.delayMs ?? 0);
    default:
      return sendResponse(serverResponse, corrupted(rule, response, context));
  }
}

/** The whole response that comes in place of the right one. */
function corrupted(
  rule: FaultRule,
  response: HttpResponse,
  { operation, redirectTargetUrl }: InjectionContext,
): HttpResponse {
  switch (rule.kind) {
    case 'status':
      return injectedStatus(rule, operation);
    case 'redirect':
      return { status: rule.status ?? 307, body: '', headers: { location: rule.location ?? redirectTargetUrl } };
    case 'malformed':
      return { ...response, body: `${response.body.slice(0, -1)},,` };
    case 'empty':
      return { ...response, body: '' };
    case 'html':
      return {
        status: response.status,
        body: '<!doctype html><title>Gateway</title><p>Please try again later.</p>',
        headers: { 'content-type': 'text/html' },
      };
    case 'noId':
      return { ...response, body: withoutId(response.body) };
    default:
      return response;
  }
}

function withoutId(body: string): string {
  const { id: _, ...record } = JSON.parse(body) as Record<string, unknown>;
  return JSON.stringify(record);
}

function injectedStatus(rule: FaultRule & { kind: 'status' }, operation: Operation): HttpResponse {
  const headers: Record<string, string> = { ...rule.headers };
  if (rule.retryAfter !== undefined) headers['retry-after'] = String(rule.retryAfter);
  if (rule.retryAfterDateMs !== undefined) {
    headers['retry-after'] = new Date(Date.now() + rule.retryAfterDateMs).toUTCString();
  }
  if (rule.body === undefined) return errorResponse(operation, rule.status, `Injected ${rule.status}`, { headers });
  const body = typeof rule.body === 'string' ? rule.body : JSON.stringify(rule.body);
  return { status: rule.status, body, headers };
}

/** Sends the headers, which promise the whole body, and its first half; `then` runs when these have left. */
function sendHalf(serverResponse: ServerResponse, response: HttpResponse, then?: () => void): void {
  writeHead(serverResponse, response);
  const body = Buffer.from(response.body);
  serverResponse.write(body.subarray(0, body.length >> 1), then);
}

async function dribble(
  serverResponse: ServerResponse,
  response: HttpResponse,
  bytes: number,
  delayMs: number,
): Promise<void> {
  writeHead(serverResponse, response);
  const body = Buffer.from(response.body);
  for (let at = 0; at < body.length && !serverResponse.destroyed; at += bytes) {
    serverResponse.write(body.subarray(at, at + bytes));
    await sleep(delayMs);
  }
  serverResponse.end();
}

/** A body without an end: the record's beginning, then padding as fast as the peer reads. */
function sendEndlessly(serverResponse: ServerResponse, response: HttpResponse): void {
  serverResponse.writeHead(response.status, { 'content-type': 'application/json' });
  serverResponse.write(`${response.body.slice(0, -1)},"padding":"`);
  const padding = Buffer.alloc(64 * 1024, 'x');
  const pour = () => {
    while (!serverResponse.destroyed && serverResponse.write(padding));
  };
  serverResponse.on('drain', pour);
  pour();
}

/** Answers in full, then closes the idle connection without having announced it. */
function closeAfterResponse(serverResponse: ServerResponse, response: HttpResponse, delayMs: number): void {
  const { socket } = serverResponse;
  serverResponse.on('finish', () => setTimeout(() => socket?.destroy(), delayMs).unref());
  sendResponse(serverResponse, response);
}

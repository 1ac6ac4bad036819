import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import type { ApiKeys, RateLimiter } from './access.js';
import { type Fault, type FaultFacts, type FaultRule, type Faults, isWholeResponse } from './armed-faults.js';
import type { SandboxClock } from './clock.js';
import {
  errorResponse,
  type HttpResponse,
  jsonResponse,
  readBody,
  resetConnection,
  type Route,
  sendResponse,
  writeHead,
} from './http.js';
import type { Jobs } from './jobs.js';
import type { Connections, OpenRequest, RequestLog } from './request-log.js';
import type { Visitors } from './visitors.js';

interface HandlerParts extends UpstreamParts {
  requestLog: RequestLog;
  connections: Connections;
  faults: Faults;
  log: (line: string) => void;
}

type OperationRoute = Extract<Route, { kind: 'operation' }>;

/** Handles a request of the interface from its headers to its response, with the faults injected on the way. */
export class RequestHandler {
  readonly #parts: HandlerParts;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
  }

  /** Answers a request that is none of the interface's. */
  unknown(request: IncomingMessage, serverResponse: ServerResponse): void {
    const entry = this.#open(request);
    request.resume();
    this.#finish(entry, serverResponse, errorResponse(undefined, 404, 'Not found'));
  }

  async handle(
    route: OperationRoute,
    request: IncomingMessage,
    serverResponse: ServerResponse,
    redirectTargetUrl: string,
  ): Promise<void> {
    const { faults } = this.#parts;
    const entry = this.#open(request, route);
    const facts: FaultFacts = { ...idsOf(route), operation: route.operation, prompt: undefined };
    const early = faults.pick('head', facts);
    if (early) return this.#resetEarly(early, entry, request);
    const body = await readBody(request, (bytes) => (entry.bodyBytes = bytes));
    if (body === undefined) return this.#end(entry, 'aborted');
    if (body === 'too large')
      return this.#finish(entry, serverResponse, errorResponse(route.operation, 413, 'Body too large'));
    if (faults.wantsPrompts) facts.prompt = readPrompt(body);
    const fault = faults.pick('whole', facts);
    const response = await this.#carryOut(entry, fault, () => {
      const { authorization, 'content-type': contentType } = request.headers;
      return respond(this.#parts, { route, authorization, contentType, body });
    });
    if (!fault)
      return this.#finish(entry, serverResponse, response ?? errorResponse(route.operation, 500, 'No response'));
    await injectFault(fault, { serverResponse, facts, redirectTargetUrl, response });
    this.#end(entry, isWholeResponse(fault.rule) ? String(serverResponse.statusCode) : fault.rule.kind);
  }

  #open(request: IncomingMessage, route?: OperationRoute): OpenRequest {
    const { requestLog, connections } = this.#parts;
    const connection = connections.use(request.socket);
    const entry = requestLog.open(request, connection.number, connection.requests);
    if (route) Object.assign(entry, { ...idsOf(route), operation: route.operation });
    requestLog.arrived(entry);
    return entry;
  }

  /** Applies a request and returns its response; undefined where a fault prevents the effect. */
  async #carryOut(
    entry: OpenRequest,
    fault: Fault | undefined,
    act: () => HttpResponse,
  ): Promise<HttpResponse | undefined> {
    if (fault?.effect === 'before') {
      if (fault.rule.kind !== 'delay') return undefined;
      await sleep(fault.rule.delayMs);
    }
    const response = act();
    entry.tookEffect = response.status < 300;
    return response;
  }

  #resetEarly(fault: Fault, entry: OpenRequest, request: IncomingMessage): void {
    const atBody = fault.rule.kind === 'reset' && fault.rule.at === 'body';
    request.on('error', () => {});
    if (atBody)
      request.once('data', () => resetConnection(request.socket)).once('end', () => resetConnection(request.socket));
    else resetConnection(request.socket);
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

function idsOf(route: OperationRoute): { projectId: string; jobId: string | undefined } {
  return { projectId: route.projectId, jobId: 'jobId' in route ? route.jobId : undefined };
}

/** A whole request of one of the four operations. */
interface OperationRequest {
  route: Extract<Route, { kind: 'operation' }>;
  authorization: string | undefined;
  contentType: string | undefined;
  body: Buffer;
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

interface UpstreamParts {
  clock: SandboxClock;
  jobs: Jobs;
  visitors: Visitors;
  keys: ApiKeys;
  limiter: RateLimiter;
}

/** What the upstream does and how it responds, without faults, in one synchronous step. */
function respond(parts: UpstreamParts, { route, authorization, contentType, body }: OperationRequest): HttpResponse {
  const { clock, jobs, keys, limiter, visitors } = parts;
  const { operation, projectId } = route;
  const refusal = keys.refuse(authorization, operation, projectId, clock.now());
  if (refusal) return refusal;
  const headers = limiter.refuse(operation, projectId, clock.now());
  if (headers) return errorResponse(operation, 429, 'Rate limit exceeded', { headers });
  if (route.operation === 'visitors') return visitors.page(projectId, route.query);
  if (route.operation === 'get') return found('get', jobs.get(projectId, route.jobId));
  if (!contentType?.startsWith('application/json')) {
    return errorResponse(operation, 400, 'Content-Type must be application/json');
  }
  const prompt = readPrompt(body);
  if (prompt === undefined) return errorResponse(operation, 400, 'prompt must be a text that is not empty');
  if (route.operation === 'create') return jsonResponse(201, jobs.create(projectId, prompt));
  return found('message', jobs.message(projectId, route.jobId, prompt));
}

function found(operation: 'get' | 'message', record: object | undefined): HttpResponse {
  return record ? jsonResponse(200, record) : errorResponse(operation, 404, 'Agent job not found');
}

// Carries a fault out: what the sandbox does to the response of a request that got one.

/** The request for which a fault is injected. */
interface InjectionContext {
  serverResponse: ServerResponse;
  facts: FaultFacts;
  /** Where redirects lead by default. */
  redirectTargetUrl: string;
  /** The response without the fault; undefined where the fault prevents the effect. */
  response: HttpResponse | undefined;
}

/** Responds as the fault says. A connection that the fault leaves open stays open until either side closes it. */
async function injectFault({ rule }: Fault, context: InjectionContext): Promise<void> {
  const { serverResponse, facts } = context;
  const response = context.response ?? errorResponse(facts.operation, 502, 'Bad gateway');
  switch (rule.kind) {
    case 'hang':
      return;
    case 'reset':
      return rule.at === 'response'
        ? resetWithinResponse(serverResponse, response)
        : resetConnection(serverResponse.socket);
    case 'delay':
      if (context.response && rule.effect === 'after') await sleep(rule.delayMs);
      return sendResponse(serverResponse, response);
    case 'slow':
      return dribble(serverResponse, response, rule.chunkBytes ?? 16, rule.chunkDelayMs ?? 20);
    case 'stallBody':
      return sendHalf(serverResponse, response);
    case 'truncated':
      return sendHalf(serverResponse, withStatus(response, rule), () => serverResponse.socket?.end());
    case 'oversized':
      return sendEndlessly(serverResponse, withStatus(response, rule));
    case 'closeAfter':
      return closeAfterResponse(serverResponse, response, rule.delayMs ?? 0);
    default:
      return sendResponse(serverResponse, corrupt(rule, response, context));
  }
}

type CorruptingRule = Extract<FaultRule, { kind: 'status' | 'malformed' | 'empty' | 'html' | 'redirect' | 'noId' }>;

function withStatus(response: HttpResponse, rule: { status?: number | undefined }): HttpResponse {
  return { ...response, status: rule.status ?? response.status };
}

function corrupt(
  rule: CorruptingRule,
  response: HttpResponse,
  { facts, redirectTargetUrl }: InjectionContext,
): HttpResponse {
  switch (rule.kind) {
    case 'status':
      return injectedStatus(rule, facts);
    case 'redirect':
      return { status: rule.status ?? 307, body: '', headers: { location: rule.location ?? redirectTargetUrl } };
    case 'malformed':
      return { ...withStatus(response, rule), body: `${response.body.slice(0, -1)},,` };
    case 'empty':
      return { ...withStatus(response, rule), body: '' };
    case 'html':
      return {
        ...withStatus(response, rule),
        body: '<!doctype html><title>Gateway</title><p>Please try again later.</p>',
        headers: { 'content-type': 'text/html' },
      };
    case 'noId':
      return { ...withStatus(response, rule), body: withoutId(response.body) };
  }
}

function withoutId(body: string): string {
  const { id: _, ...record } = JSON.parse(body) as Record<string, unknown>;
  return JSON.stringify(record);
}

function injectedStatus(rule: Extract<FaultRule, { kind: 'status' }>, facts: FaultFacts): HttpResponse {
  const headers: Record<string, string> = { ...rule.headers };
  if (rule.retryAfter !== undefined) headers['retry-after'] = String(rule.retryAfter);
  if (rule.retryAfterDateMs !== undefined) {
    headers['retry-after'] = new Date(Date.now() + rule.retryAfterDateMs).toUTCString();
  }
  if (rule.body === undefined)
    return errorResponse(facts.operation, rule.status, `Injected ${rule.status}`, { headers });
  const body = typeof rule.body === 'string' ? rule.body : JSON.stringify(rule.body);
  return { status: rule.status, body, headers };
}

/** Sends the headers, which promise the whole body, and its first half; `then` runs when these have left. */
function sendHalf(serverResponse: ServerResponse, response: HttpResponse, then?: () => void): void {
  writeHead(serverResponse, response);
  const body = Buffer.from(response.body);
  serverResponse.write(body.subarray(0, body.length >> 1), then);
}

function resetWithinResponse(serverResponse: ServerResponse, response: HttpResponse): void {
  sendHalf(serverResponse, response, () => resetConnection(serverResponse.socket));
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

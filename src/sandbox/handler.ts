import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import {
  errorResponse,
  jsonResponse,
  readBody,
  resetConnection,
  sendResponse,
  type HttpResponse,
  type Route,
} from './http.js';
import type { Connections, OpenRequest, RequestLog } from './request-log.js';
import { injectFault } from './fault-response.js';
import type { Fault, FaultFacts, Faults } from './armed-faults.js';
import { isWholeResponse } from './fault-rule.js';
import type { ApiKeys, RateLimiter } from './access.js';
import type { SandboxClock } from './clock.js';
import type { Jobs } from './jobs.js';
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

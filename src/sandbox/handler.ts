import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorResponse, readBody, resetConnection, sendResponse, type HttpResponse } from './http.js';
import type { RequestLog, OpenRequest } from './request-log.js';
import type { Connections } from './connections.js';
import { injectFault } from './fault-response.js';
import type { Fault, FaultFacts, Faults } from './armed-faults.js';
import { isWholeResponse } from './fault-rule.js';
import type { Operations } from './operations.js';
import { readPrompt } from './operations.js';
import type { Route } from './route.js';

interface HandlerParts {
  requestLog: RequestLog;
  connections: Connections;
  faults: Faults;
  operations: Operations;
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
      return this.#parts.operations.handle({ route, authorization, contentType, body });
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

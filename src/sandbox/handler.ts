import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer } from './response.js';
import { errorAnswer } from './response.js';
import type { Books, OpenRequest } from './request-log.js';
import type { Connections } from './connections.js';
import { resetConnection, sendAnswer, strike } from './fault-injection.js';
import type { Fault, FaultFacts, Faults } from './faults.js';
import { isWholeAnswer } from './fault-rule.js';
import type { Operations } from './operations.js';
import { readPrompt } from './operations.js';
import { readBody } from './request-body.js';
import type { Route } from './route.js';

interface HandlerParts {
  books: Books;
  connections: Connections;
  faults: Faults;
  operations: Operations;
  log: (line: string) => void;
}

type OperationRoute = Extract<Route, { kind: 'operation' }>;

/** Takes a request of the interface from its headers to its answer, past the faults that strike on the way. */
export class RequestHandler {
  private readonly parts: HandlerParts;

  constructor(parts: HandlerParts) {
    this.parts = parts;
  }

  /** Answers a request that is none of the interface's. */
  unknown(request: IncomingMessage, response: ServerResponse): void {
    const entry = this.open(request);
    request.resume();
    this.finish(entry, response, errorAnswer(undefined, 404, 'Not found'));
  }

  async handle(
    route: OperationRoute,
    request: IncomingMessage,
    response: ServerResponse,
    trapUrl: string,
  ): Promise<void> {
    const { faults } = this.parts;
    const entry = this.open(request, route);
    const facts: FaultFacts = { ...idsOf(route), operation: route.operation, prompt: undefined };
    const early = faults.pick('head', facts);
    if (early) return this.resetEarly(early, entry, request);
    const body = await readBody(request, (bytes) => (entry.bodyBytes = bytes));
    if (body === undefined) return this.end(entry, 'aborted');
    if (body === 'too large') return this.finish(entry, response, errorAnswer(route.operation, 413, 'Body too large'));
    if (faults.wantsPrompts) facts.prompt = readPrompt(body);
    const fault = faults.pick('whole', facts);
    const answer = await this.carryOut(entry, fault, () => {
      const { authorization, 'content-type': contentType } = request.headers;
      return this.parts.operations.answer({ route, authorization, contentType, body });
    });
    if (!fault) return this.finish(entry, response, answer ?? errorAnswer(route.operation, 500, 'No answer'));
    await strike(fault, { response, facts, trapUrl, answer });
    this.end(entry, isWholeAnswer(fault.rule) ? String(response.statusCode) : fault.rule.kind);
  }

  private open(request: IncomingMessage, route?: OperationRoute): OpenRequest {
    const { books, connections } = this.parts;
    const connection = connections.use(request.socket);
    const entry = books.open(request, connection.number, connection.requests);
    if (route) Object.assign(entry, { ...idsOf(route), operation: route.operation });
    books.arrived(entry);
    return entry;
  }

  /** The effect of a request and its answer; undefined where the fault strikes first. */
  private async carryOut(entry: OpenRequest, fault: Fault | undefined, act: () => Answer): Promise<Answer | undefined> {
    if (fault?.effect === 'before') {
      if (fault.rule.kind !== 'delay') return undefined;
      await sleep(fault.rule.delayMs);
    }
    const answer = act();
    entry.tookEffect = answer.status < 300;
    return answer;
  }

  private resetEarly(fault: Fault, entry: OpenRequest, request: IncomingMessage): void {
    const atBody = fault.rule.kind === 'reset' && fault.rule.at === 'body';
    request.on('error', () => {});
    if (atBody)
      request.once('data', () => resetConnection(request.socket)).once('end', () => resetConnection(request.socket));
    else resetConnection(request.socket);
    this.end(entry, 'reset');
  }

  private finish(entry: OpenRequest, response: ServerResponse, answer: Answer): void {
    this.end(entry, String(answer.status));
    sendAnswer(response, answer);
  }

  private end(entry: OpenRequest, answer: string): void {
    this.parts.books.ended(entry, answer);
    this.parts.log(`${entry.method} ${entry.path} ${answer}`);
  }
}

function idsOf(route: OperationRoute): { projectId: string; jobId: string | undefined } {
  return { projectId: route.projectId, jobId: 'jobId' in route ? route.jobId : undefined };
}

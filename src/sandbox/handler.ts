/** Handles a request of the interface from its headers to its response, with the faults injected on the way. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiKeys, RateLimiter } from './access.js';
import { type FaultRule, type Faults, isAfterEffect } from './faults.js';
import {
  errorResponse,
  type HttpResponse,
  jsonResponse,
  type Operation,
  type OperationRoute,
  readBody,
  sendHalf,
  sendResponse,
} from './http.js';
import type { Jobs } from './jobs.js';
import type { RequestLog, RequestRecord } from './request-log.js';
import type { Visitors } from './visitors.js';

/** What a sandbox is composed of; its requests and its control reach all of it. */
export interface SandboxParts {
  now: () => number;
  jobs: Jobs;
  visitors: Visitors;
  keys: ApiKeys;
  limiter: RateLimiter;
  faults: Faults;
  requestLog: RequestLog;
  openConnections: () => number;
  log: (line: string) => void;
}

/** Handles one request; `route` is missing if it is none of the interface's. */
export async function handleRequest(
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
  const facts = { ...route, prompt: undefined as string | undefined };
  const early = faults.pick('headers', facts);
  if (early) {
    resetEarly(early, request);
    return end(parts, entry, 'reset');
  }
  const body = await readBody(request);
  if (body === undefined) return end(parts, entry, 'aborted');
  if (body === 'too large') {
    return finish(parts, entry, serverResponse, errorResponse(route.operation, 413, 'Body too large'));
  }
  entry.bodyBytes = body.length;
  if (faults.wantsPrompts) facts.prompt = readPrompt(body);
  const fault = faults.pick('request', facts);
  if (fault?.kind === 'delay' && !isAfterEffect(fault)) await sleep(fault.delayMs);
  const hasEffect = !fault || fault.kind === 'delay' || isAfterEffect(fault);
  const response = hasEffect
    ? respond(parts, route, request, body)
    : errorResponse(route.operation, 502, 'Bad gateway');
  entry.tookEffect = hasEffect && response.status < 300;
  if (!fault) return finish(parts, entry, serverResponse, response);
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

/** Resets the connection before the request is read. */
function resetEarly(fault: FaultRule, request: IncomingMessage): void {
  const reset = () => request.socket.resetAndDestroy();
  request.on('error', () => {});
  if ('at' in fault && fault.at === 'body') request.once('data', reset).once('end', reset);
  else reset();
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
  body: Buffer,
): HttpResponse {
  const refusal = keys.refuse(headers.authorization, operation, projectId);
  if (refusal) return refusal;
  const retryAfter = limiter.refuse(operation, projectId, now());
  if (retryAfter) return errorResponse(operation, 429, 'Rate limit exceeded', { headers: retryAfter });
  if (operation === 'visitors') return visitors.page(projectId, query);
  if (operation === 'get') return found(operation, jobs.get(projectId, jobId));
  if (!headers['content-type']?.startsWith('application/json')) {
    return errorResponse(operation, 400, 'Content-Type must be application/json');
  }
  const prompt = readPrompt(body);
  if (prompt === undefined) return errorResponse(operation, 400, 'prompt must be a text that is not empty');
  if (operation === 'create') return jsonResponse(201, jobs.create(projectId, prompt));
  return found(operation, jobs.message(projectId, jobId, prompt));
}

function found(operation: Operation, record: object | undefined): HttpResponse {
  return record ? jsonResponse(200, record) : errorResponse(operation, 404, 'Agent job not found');
}

/** Responds as the fault says. A connection that the fault leaves open stays open until either side closes it. */
async function injectFault(
  rule: FaultRule,
  operation: Operation,
  response: HttpResponse,
  serverResponse: ServerResponse,
): Promise<void> {
  const { socket } = serverResponse;
  switch (rule.kind) {
    case 'hang':
      if (rule.at === 'response') sendHalf(serverResponse, response);
      return;
    case 'reset':
      if (rule.at === 'response') sendHalf(serverResponse, response, () => socket?.resetAndDestroy());
      else socket?.resetAndDestroy();
      return;
    case 'truncated':
      return sendHalf(serverResponse, response, () => socket?.end());
    case 'delay':
      if (isAfterEffect(rule)) await sleep(rule.delayMs);
      return sendResponse(serverResponse, response);
    case 'status':
      return sendResponse(serverResponse, injectedResponse(rule, operation));
  }
}

function injectedResponse(rule: FaultRule & { kind: 'status' }, operation: Operation): HttpResponse {
  const { status, retryAfter, retryAfterDateMs, body } = rule;
  const headers = { ...rule.headers };
  if (retryAfter !== undefined) headers['retry-after'] = String(retryAfter);
  if (retryAfterDateMs !== undefined) headers['retry-after'] = new Date(Date.now() + retryAfterDateMs).toUTCString();
  if (body === undefined) return errorResponse(operation, status, `Injected ${status}`, { headers });
  return { status, body: typeof body === 'string' ? body : JSON.stringify(body), headers };
}

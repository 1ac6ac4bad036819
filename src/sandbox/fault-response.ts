/** Carries a fault out: what the sandbox does to the response of a request that got one. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorResponse, resetConnection, sendResponse, writeHead, type HttpResponse } from './http.js';
import type { Fault, FaultFacts } from './armed-faults.js';
import type { FaultRule } from './fault-rule.js';

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
export async function injectFault({ rule }: Fault, context: InjectionContext): Promise<void> {
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

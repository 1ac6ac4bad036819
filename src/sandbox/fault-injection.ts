import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer } from './response.js';
import { errorAnswer } from './response.js';
import type { Fault, FaultFacts } from './faults.js';
import type { FaultRule } from './fault-rule.js';

/** Sends a whole answer, its length declared. */
export function sendAnswer(response: ServerResponse, answer: Answer): void {
  writeHead(response, answer);
  response.end(answer.body);
}

function writeHead(response: ServerResponse, answer: Answer): void {
  response.writeHead(answer.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(answer.body),
    ...answer.headers,
  });
}

/** Resets a connection (RST), so that the peer sees an error and not an end. */
export function resetConnection(socket: Socket | null): void {
  socket?.resetAndDestroy();
}

/** Where an answer would have come from without the fault. */
export interface StrikeContext {
  response: ServerResponse;
  facts: FaultFacts;
  /** Address of the trap, where redirects lead. */
  trapUrl: string;
  /** The true answer; undefined where the fault strikes before the effect. */
  answer: Answer | undefined;
}

/** Answers a request as the fault says. What the fault leaves open stays open until the peer or the sandbox closes it. */
export async function strike({ rule }: Fault, context: StrikeContext): Promise<void> {
  const { response, facts } = context;
  const answer = context.answer ?? errorAnswer(facts.operation, 502, 'Bad gateway');
  switch (rule.kind) {
    case 'hang':
      return;
    case 'reset':
      return rule.at === 'response' ? resetWithinAnswer(response, answer) : resetConnection(response.socket);
    case 'delay':
      if (context.answer && rule.effect === 'after') await sleep(rule.delayMs);
      return sendAnswer(response, answer);
    case 'slow':
      return dribble(response, answer, rule.chunkBytes ?? 16, rule.chunkDelayMs ?? 20);
    case 'stallBody':
      return sendHalf(response, answer);
    case 'truncated':
      return sendHalf(response, withStatus(answer, rule), () => response.socket?.end());
    case 'oversized':
      return sendEndlessly(response, withStatus(answer, rule));
    case 'closeAfter':
      return closeAfterAnswer(response, answer, rule.delayMs ?? 0);
    default:
      return sendAnswer(response, spoil(rule, answer, context));
  }
}

type SpoilingRule = Extract<FaultRule, { kind: 'status' | 'malformed' | 'empty' | 'html' | 'redirect' | 'noId' }>;

function withStatus(answer: Answer, rule: { status?: number | undefined }): Answer {
  return { ...answer, status: rule.status ?? answer.status };
}

function spoil(rule: SpoilingRule, answer: Answer, { facts, trapUrl }: StrikeContext): Answer {
  switch (rule.kind) {
    case 'status':
      return statusAnswer(rule, facts);
    case 'redirect':
      return { status: rule.status ?? 307, body: '', headers: { location: rule.location ?? trapUrl } };
    case 'malformed':
      return { ...withStatus(answer, rule), body: `${answer.body.slice(0, -1)},,` };
    case 'empty':
      return { ...withStatus(answer, rule), body: '' };
    case 'html':
      return {
        ...withStatus(answer, rule),
        body: '<!doctype html><title>Gateway</title><p>Please try again later.</p>',
        headers: { 'content-type': 'text/html' },
      };
    case 'noId':
      return { ...withStatus(answer, rule), body: withoutId(answer.body) };
  }
}

function withoutId(body: string): string {
  const { id: _, ...record } = JSON.parse(body) as Record<string, unknown>;
  return JSON.stringify(record);
}

function statusAnswer(rule: Extract<FaultRule, { kind: 'status' }>, facts: FaultFacts): Answer {
  const headers: Record<string, string> = { ...rule.headers };
  if (rule.retryAfter !== undefined) headers['retry-after'] = String(rule.retryAfter);
  if (rule.retryAfterDateMs !== undefined) {
    headers['retry-after'] = new Date(Date.now() + rule.retryAfterDateMs).toUTCString();
  }
  if (rule.body === undefined) return errorAnswer(facts.operation, rule.status, `Injected ${rule.status}`, { headers });
  const body = typeof rule.body === 'string' ? rule.body : JSON.stringify(rule.body);
  return { status: rule.status, body, headers };
}

/** Sends the headers, which promise the whole body, and its first half; `then` runs when these have left. */
function sendHalf(response: ServerResponse, answer: Answer, then?: () => void): void {
  writeHead(response, answer);
  const body = Buffer.from(answer.body);
  response.write(body.subarray(0, body.length >> 1), then);
}

function resetWithinAnswer(response: ServerResponse, answer: Answer): void {
  sendHalf(response, answer, () => resetConnection(response.socket));
}

async function dribble(response: ServerResponse, answer: Answer, bytes: number, delayMs: number): Promise<void> {
  writeHead(response, answer);
  const body = Buffer.from(answer.body);
  for (let at = 0; at < body.length && !response.destroyed; at += bytes) {
    response.write(body.subarray(at, at + bytes));
    await sleep(delayMs);
  }
  response.end();
}

/** A body without an end: the record's beginning, then padding as fast as the peer reads. */
function sendEndlessly(response: ServerResponse, answer: Answer): void {
  response.writeHead(answer.status, { 'content-type': 'application/json' });
  response.write(`${answer.body.slice(0, -1)},"padding":"`);
  const padding = Buffer.alloc(64 * 1024, 'x');
  const pour = () => {
    while (!response.destroyed && response.write(padding));
  };
  response.on('drain', pour);
  pour();
}

/** Answers in full, then closes the idle connection without having announced it. */
function closeAfterAnswer(response: ServerResponse, answer: Answer, delayMs: number): void {
  const { socket } = response;
  response.on('finish', () => setTimeout(() => socket?.destroy(), delayMs).unref());
  sendAnswer(response, answer);
}

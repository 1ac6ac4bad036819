/** The faults that are armed: which of them a request gets, and how it is injected. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { errorResponse, UPSTREAM_OPERATIONS, sendHalf, sendResponse } from './http.js';
import type { HttpResponse, Operation, OperationRoute } from './http.js';
import { seededRandom } from './random.js';

/** Which requests a rule is for, and how often and when its fault is injected. */
const common = {
  operation: z.enum(UPSTREAM_OPERATIONS).optional(),
  projectId: z.string().optional(),
  promptIncludes: z.string().optional(),
  /** Applies from the nth matching request on, counted from 1 since the rule was added; default 1. */
  nth: z.int().min(1).optional(),
  /** 0 to 1, drawn with `seed` for each matching request. */
  probability: z.number().min(0).max(1).optional(),
  seed: z.int().optional(),
  /** How many times the fault is injected; default 1, without end if there is a probability. */
  count: z.int().min(1).optional(),
  /**
   * `before`: the write never takes effect (`delay`: it takes effect after the delay). `after`: the write has taken
   * effect when the fault is injected. The default is `after` for a fault within the response, else `before`.
   */
  effect: z.enum(['before', 'after']).optional(),
};

/** The shape of a rule. */
export const faultRuleSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('reset'),
    ...common,
    /** At once, after the headers, within the body, after the request (default), within the response. */
    at: z.enum(['connect', 'headers', 'body', 'request', 'response']).optional(),
  }),
  /** No response, or headers and half of the body, and then nothing. */
  z.strictObject({ kind: z.literal('hang'), ...common, at: z.enum(['request', 'response']).optional() }),
  /** Half of the promised body, then the end of the connection. */
  z.strictObject({ kind: z.literal('truncated'), ...common }),
  z.strictObject({ kind: z.literal('delay'), ...common, delayMs: z.number().min(0) }),
  z.strictObject({
    kind: z.literal('status'),
    ...common,
    status: z.int().min(200).max(599),
    /** A text is sent as it is, anything else as JSON; default: the operation's error body. */
    body: z.unknown().optional(),
    /** `{id}` in a value is the id of the job that the create made. */
    headers: z.record(z.string(), z.string()).optional(),
    /** `Retry-After`: seconds, or any text. */
    retryAfter: z.union([z.number(), z.string()]).optional(),
    /** `Retry-After` as an HTTP date, in milliseconds after the response. */
    retryAfterDateMs: z.number().optional(),
  }),
]);

/** One fault to inject; `kind` says which, the rest for which requests. */
export type FaultRule = z.input<typeof faultRuleSchema>;

/** When a rule is evaluated: at the connection, at the headers, or with the whole request read. */
type FaultMoment = 'connect' | 'headers' | 'request';

function momentOf(rule: FaultRule): FaultMoment {
  if (rule.kind !== 'reset') return 'request';
  if (rule.at === 'connect') return 'connect';
  return rule.at === 'headers' || rule.at === 'body' ? 'headers' : 'request';
}

/** Whether the write takes effect before the fault is injected. */
export function isAfterEffect(rule: FaultRule): boolean {
  if (rule.effect) return rule.effect === 'after';
  return rule.kind === 'truncated' || ('at' in rule && rule.at === 'response');
}

/** What is known of a request when a fault is picked for it. */
interface FaultFacts extends Pick<OperationRoute, 'operation' | 'projectId'> {
  prompt?: string | undefined;
}

/** A rule as the control shows it: how many requests matched it, and how often its fault was injected. */
export interface FaultStatus {
  id: number;
  rule: FaultRule;
  matched: number;
  injected: number;
}

interface ArmedRule extends FaultStatus {
  random: () => number;
}

/** The rules in the order in which they were added; the first that applies wins. */
export class Faults {
  #rules: ArmedRule[] = [];
  #nextId = 1;

  add(rule: FaultRule): number {
    const id = this.#nextId++;
    this.#rules.push({ id, rule, matched: 0, injected: 0, random: seededRandom(rule.seed ?? id) });
    return id;
  }

  clear(): void {
    this.#rules = [];
  }

  list(): FaultStatus[] {
    return this.#rules.map(({ random: _, ...status }) => status);
  }

  pick(moment: FaultMoment, facts?: FaultFacts): FaultRule | undefined {
    const armed = this.#rules.find((one) => momentOf(one.rule) === moment && matches(one.rule, facts) && isDue(one));
    if (armed) armed.injected++;
    return armed?.rule;
  }
}

function matches(rule: FaultRule, facts: FaultFacts | undefined): boolean {
  return (
    (rule.operation === undefined || rule.operation === facts?.operation) &&
    (rule.projectId === undefined || rule.projectId === facts?.projectId) &&
    (rule.promptIncludes === undefined || facts?.prompt?.includes(rule.promptIncludes) === true)
  );
}

function isDue(armed: ArmedRule): boolean {
  const { nth = 1, probability, count = probability === undefined ? 1 : Infinity } = armed.rule;
  armed.matched++;
  if (armed.matched < nth || armed.injected >= count) return false;
  return probability === undefined || armed.random() < probability;
}

/** Resets the connection before the request is read. */
export function resetEarly(fault: FaultRule, request: IncomingMessage): void {
  const reset = () => request.socket.resetAndDestroy();
  request.on('error', () => {});
  if ('at' in fault && fault.at === 'body') request.once('data', reset).once('end', reset);
  else reset();
}

/** Responds as the fault says. A connection that the fault leaves open stays open until either side closes it. */
export async function injectFault(
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
      return sendResponse(serverResponse, injectedResponse(rule, operation, response));
  }
}

function injectedResponse(
  rule: FaultRule & { kind: 'status' },
  operation: Operation,
  effect: HttpResponse,
): HttpResponse {
  const { status, retryAfter, retryAfterDateMs, body } = rule;
  const { id = '' } = JSON.parse(effect.body) as { id?: string };
  const given = Object.entries(rule.headers ?? {}).map(([name, value]) => [name, value.replaceAll('{id}', id)]);
  const headers = Object.fromEntries(given) as Record<string, string>;
  if (retryAfter !== undefined) headers['retry-after'] = String(retryAfter);
  if (retryAfterDateMs !== undefined) headers['retry-after'] = new Date(Date.now() + retryAfterDateMs).toUTCString();
  if (body === undefined) return errorResponse(operation, status, `Injected ${status}`, { headers });
  return { status, body: typeof body === 'string' ? body : JSON.stringify(body), headers };
}

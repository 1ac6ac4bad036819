/**
 * The contract of the workflow `requestQueue`: who may send next to an upstream that limits the requests of an
 * hour or a day. One queue for each project and kind of write, and one for all exports. See docs/operations.md.
 */
import type { Priority } from './agent-job.js';
import { defineQuery, defineSignal, encodeId } from './shared.js';

/** Workflow type. */
export const REQUEST_QUEUE_WORKFLOW = 'requestQueue';

/** Whose requests one queue orders. */
export type QueueName =
  { operation: 'create' | 'message'; projectId: string } | { operation: 'visitors'; projectId: null };

/** The only argument of `requestQueue`; `continued` is what continue-as-new hands on. */
export type RequestQueueInput = QueueName & { continued?: unknown };

/** How a request ended, as far as the upstream's budget goes. Times in milliseconds of the worker's clock. */
export interface RequestReport {
  /** The id of the turn that it had; null if it was sent without one. */
  turn: Turn['id'] | null;
  /** `unsent`: the turn was not used. `other`: whether it counts upstream is not known, so it counts. */
  outcome: 'accepted' | 'throttled' | 'unsent' | 'other';
  at: number;
  /** How many requests were sent, the one that was answered 429 included; default 1. */
  requests?: number;
  /** What the upstream asked for with a 429. */
  retryAfterMs?: number | null;
}

/** A budget without a limit. */
export const UNLIMITED = 'unlimited';

/** The most writes in any hour or day, or any number of them. */
export type WriteLimit = number | typeof UNLIMITED;

/**
 * What a worker knows of a budget, sent along with every message of the queue. A limit is 1 or more, or `unlimited`:
 * the newest message with one wins. Null takes it back once no worker has named one for a quarter of an hour: while
 * settings are rolled out, workers differ. Absent says nothing.
 */
export interface BudgetFacts {
  /** For any hour. */
  perHour?: WriteLimit | null;
  /** For any day. */
  perDay?: WriteLimit | null;
}

/** A workflow asks for its turn; asked again, it keeps its place. */
export interface JoinRequest extends BudgetFacts {
  workflowId: string;
  priority: Priority;
  /** When it first wanted to send, in milliseconds: the order within a priority. */
  askedAt: number;
  /** How many requests of an export the turn is for; default 1. */
  requests?: number;
  /** How the request ended that made it ask. */
  report?: RequestReport | null;
}

/**
 * A turn: `requests` requests may be sent one after the other, all before `until` (milliseconds of the server's clock).
 * There may be fewer than were asked for: then the workflow asks again. Every turn is reported, used or not.
 */
export interface Turn {
  /** At most 100 characters. */
  id: string;
  /** Whose queue gave it: a job may have been in several. */
  operation: QueueName['operation'];
  until: number;
  requests: number;
}

/** Who waits. Times are ISO 8601 UTC with milliseconds. */
export interface QueuedRequest {
  workflowId: string;
  priority: Priority;
  since: string;
  /** From 1. */
  position: number;
  /** When its turn is expected, as the budget is known now; absent if that is not known. */
  expectedAt?: string;
}

/** A queue as the query `requestQueueState` shows it. Times are ISO 8601 UTC with milliseconds. */
export interface RequestQueueState {
  operation: QueueName['operation'];
  projectId: string | null;
  /** The budget of an hour; null if no number is set. */
  perHour: number | null;
  /** The budget of a day; null if no number is set. */
  perDay: number | null;
  spentLastHour: number;
  spentLastDay: number;
  throttledLastHour: number;
  /** Turns that were given and not yet reported. */
  inFlight: number;
  /** Nothing is sent before; null if nothing holds the queue back. */
  notBefore: string | null;
  /** When the next turn is given, as far as is known. */
  nextTurnAt: string | null;
  waitingCount: number;
  /** The first hundred. */
  waiting: QueuedRequest[];
}

/** One that waits: `for` says whether the budget keeps it, or a time that the upstream named. */
export interface QueuePlace {
  for: 'turn' | 'rateLimit';
  position: number;
  expectedAt?: string;
  /** Which budget is used up, if one is. */
  reason?: string;
}

/** Asks for a turn. Sent by activities, together with the start of the queue if there is none. */
export const joinQueueSignal = defineSignal<[JoinRequest]>('joinQueue');
/** Reports how a request ended. */
export const reportRequestSignal = defineSignal<[RequestReport & BudgetFacts]>('reportRequest');
/** The state of the queue, at a time in milliseconds; default: when a worker last took a message or timer of it. */
export const requestQueueStateQuery = defineQuery<RequestQueueState, [number?]>('requestQueueState');
/** The place of a workflow; null if it does not wait. */
export const queuePlaceQuery = defineQuery<QueuePlace | null, [string]>('queuePlace');
/** Gives a waiting workflow its turn; null asks only whether it still runs. Sent by the queue. */
export const requestTurnSignal = defineSignal<[Turn | null]>('requestTurn');

/** The workflow id of a queue. */
export function requestQueueId({ operation, projectId }: QueueName): string {
  return projectId === null ? `request-queue/${operation}` : `request-queue/${encodeId(projectId)}/${operation}`;
}

/** Whose queue a workflow id names; null for an id that this release does not make. */
export function queueNameOf(workflowId: string): QueueName | null {
  const [prefix, first = '', operation, ...more] = workflowId.split('/');
  if (prefix !== 'request-queue' || more.length > 0) return null;
  if (operation === undefined) return first === 'visitors' ? { operation: first, projectId: null } : null;
  if (operation !== 'create' && operation !== 'message') return null;
  try {
    return { operation, projectId: decodeURIComponent(first) };
  } catch {
    return null;
  }
}

/**
 * Checks what is sent to a queue of requests. A wrong value is an InvalidInputError, and the message is ignored; what a
 * newer worker may know and this one does not is left out. Pure and safe in workflow code.
 */
import {
  DEFAULT_PRIORITY,
  LIMIT,
  type BudgetFacts,
  type JoinRequest,
  type LeaveRequest,
  type QueueName,
  type RequestReport,
} from '../contract.js';
import {
  checkId,
  checkObject,
  checkString,
  checkWholeNumber,
  InvalidInputError,
  isGiven,
  utf8Bytes,
} from '../contract/input-checks.js';
import { PRIORITY } from '../contract/kinds.js';

const OPERATIONS: readonly unknown[] = ['create', 'message', 'visitors'] satisfies QueueName['operation'][];
const OUTCOMES: readonly RequestReport['outcome'][] = ['accepted', 'throttled', 'unsent', 'other'];
/** Bounds what one message can count. */
const MAX_REQUESTS = 1_000_000;
/** The name of a turn. */
export const MAX_TURN_CHARACTERS = 100;

/** Checks the input of `requestQueue`. */
export function parseQueueName(input: unknown): QueueName {
  const { operation, projectId } = checkObject(input, 'input');
  if (!OPERATIONS.includes(operation)) {
    throw new InvalidInputError('operation', 'must be one of create, message, visitors');
  }
  if (operation !== 'visitors') return { operation, projectId: checkId(projectId, 'projectId') } as QueueName;
  if (isGiven(projectId)) throw new InvalidInputError('projectId', 'must be null: all exports share one queue');
  return { operation, projectId: null };
}

/** Checks the argument of `joinQueue`; defaults filled in. */
export function parseJoin(input: unknown): JoinRequest & { requests: number } {
  const fields = checkObject(input, 'join');
  return {
    workflowId: checkWorkflowId(fields.workflowId),
    priority: PRIORITY.check(fields.priority ?? DEFAULT_PRIORITY, 'priority'),
    askedAt: checkTime(fields.askedAt, 'askedAt'),
    requests: checkRequests(fields.requests ?? 1),
    ...(isGiven(fields.report) && { report: checkReport(checkObject(fields.report, 'report')) }),
    ...checkFacts(fields),
  };
}

/** Checks the argument of `leaveQueue`. */
export function parseLeave(input: unknown): LeaveRequest {
  const { workflowId, turn } = checkObject(input, 'leave');
  return { workflowId: checkWorkflowId(workflowId), ...(isGiven(turn) && { turn: checkTurn(turn) }) };
}

/** Checks the argument of `reportRequest`. */
export function parseReport(input: unknown): RequestReport & BudgetFacts {
  const fields = checkObject(input, 'report');
  return { ...checkReport(fields), ...checkFacts(fields) };
}

function checkReport({ turn, outcome, at, requests, retryAfterMs }: Record<string, unknown>): RequestReport {
  return {
    turn: isGiven(turn) ? checkTurn(turn) : null,
    outcome: OUTCOMES.find((known) => known === outcome) ?? 'other',
    at: checkTime(at, 'at'),
    ...(isGiven(requests) && { requests: checkRequests(requests) }),
    ...(isGiven(retryAfterMs) && { retryAfterMs: checkTime(retryAfterMs, 'retryAfterMs') }),
  };
}

function checkFacts({ perHour, isUnlimited }: Record<string, unknown>): BudgetFacts {
  return {
    ...(isPerHour(perHour) && { perHour: perHour === null ? null : Math.floor(perHour) }),
    ...(perHour === null && isUnlimited === true && { isUnlimited }),
  };
}

function isPerHour(value: unknown): value is number | null {
  return value === null || (typeof value === 'number' && Number.isFinite(value) && value >= 1);
}

function checkTurn(value: unknown): string {
  const turn = checkString(value, 'turn');
  if (turn.length > MAX_TURN_CHARACTERS) throw new InvalidInputError('turn', 'must be what the queue named it');
  return turn;
}

function checkWorkflowId(value: unknown): string {
  const id = checkString(value, 'workflowId');
  if (id !== '' && id.isWellFormed() && utf8Bytes(id) <= LIMIT.workflowIdBytes) return id;
  throw new InvalidInputError('workflowId', `must be well-formed text of 1 to ${LIMIT.workflowIdBytes} bytes`);
}

function checkTime(value: unknown, field: string): number {
  if (typeof value === 'number' && Number.isFinite(value)) return Math.max(0, Math.round(value));
  throw new InvalidInputError(field, 'must be a number of milliseconds');
}

function checkRequests(value: unknown): number {
  return checkWholeNumber(value, 'requests', [1, MAX_REQUESTS]);
}

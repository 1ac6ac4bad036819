/**
 * Checks what is sent to a queue of requests, and what a queue sends. A wrong message is an InvalidInputError, and is
 * ignored; what it holds besides is left out. Pure and safe in workflow code.
 */
import { DEFAULT_PRIORITY, LIMIT } from '../contract.js';
import type { BudgetFacts, JoinRequest, QueueName, RequestReport, Turn } from '../contract.js';
import {
  checkObject,
  ID,
  type Kind,
  NOTHING,
  object,
  oneOf,
  optional,
  parseFields,
  PRIORITY,
  text,
  whole,
} from '../contract/kinds.js';
import { InvalidInputError } from '../contract/errors.js';
import { UNLIMITED, type WriteLimit } from '../contract/request-queue.js';

/** A later time is no date. */
const LATEST_DATE = 8.64e15;
const OPERATION = oneOf('create', 'message', 'visitors');
const REPORTED_OUTCOME = oneOf('accepted', 'throttled', 'unsent', 'other');

/** What one message can count is bounded. */
const REQUESTS = whole(1, 1_000_000);

const MILLISECONDS: Kind<number> = {
  check: (value, field) => {
    if (typeof value === 'number' && Math.abs(value) <= LATEST_DATE) return Math.max(0, Math.round(value));
    throw new InvalidInputError(field, 'must be a number of milliseconds');
  },
  schema: () => ({ type: 'number' }),
};

const REQUEST_COUNT = whole(1, Number.MAX_SAFE_INTEGER);
const WRITE_LIMIT: Kind<WriteLimit> = {
  check: (value, field) => (value === UNLIMITED ? value : REQUEST_COUNT.check(value, field)),
  schema: () => ({ type: ['integer', 'string'] }),
};

// Names go on to activities and to the next run: a large one would fail the workflow task for ever.
const TURN_ID = text({ maxBytes: 100, controls: 'all' });
const WORKFLOW_ID = text({ maxBytes: LIMIT.workflowIdBytes, controls: 'all' });
const REPORT = {
  turn: optional(TURN_ID),
  outcome: REPORTED_OUTCOME,
  at: MILLISECONDS,
  requests: optional(REQUESTS, 1),
  retryAfterMs: optional(MILLISECONDS),
};
const JOIN = {
  workflowId: WORKFLOW_ID,
  priority: optional(PRIORITY, DEFAULT_PRIORITY),
  askedAt: MILLISECONDS,
  requests: optional(REQUESTS, 1),
  report: optional(object(REPORT)),
};

/** Checks the input of `requestQueue`. */
export function parseQueueName(input: unknown): QueueName {
  const fields = checkObject(input, 'input');
  const operation = OPERATION.check(fields.operation, 'operation');
  // All exports share one queue.
  if (operation === 'visitors') return { operation, projectId: NOTHING.check(fields.projectId, 'projectId') as null };
  return { operation, projectId: ID.check(fields.projectId, 'projectId') as string };
}

/** Checks the argument of `joinQueue`; defaults filled in. */
export function parseJoin(input: unknown): JoinRequest {
  return { ...parseFields(JOIN, checkObject(input, 'join')), ...parseFacts(input) };
}

/** Checks the argument of `reportRequest`. */
export function parseReport(input: unknown): RequestReport & BudgetFacts {
  return { ...parseFields(REPORT, checkObject(input, 'report')), ...parseFacts(input) };
}

const TURN = { id: TURN_ID, operation: OPERATION, until: MILLISECONDS, requests: optional(REQUESTS, 1) };

/** Reads the argument of `requestTurn`; null if that is no turn. */
export function readTurn(input: unknown): Turn | null {
  try {
    return parseFields(TURN, checkObject(input, 'turn'));
  } catch (error) {
    if (error instanceof InvalidInputError) return null;
    throw error;
  }
}

/** Absent says nothing of a limit, and null that none is set. */
function parseFacts(input: unknown): BudgetFacts {
  const given = input as Record<string, unknown>;
  const limits = (['perHour', 'perDay'] as const).filter((name) => given[name] !== undefined);
  return Object.fromEntries(limits.map((name) => [name, optional(WRITE_LIMIT).check(given[name], name)]));
}

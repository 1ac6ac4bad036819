/**
 * Reads the messages between runs and their lock. Anybody may signal a workflow, and an error in a handler would fail
 * its workflow task for ever: what is malformed counts as absent.
 */
import { LIMIT, type LockAnswer, type LockWaiter, type RecurringJobLockInput } from '../../contract.js';
import { jsonBytes } from '../../contract/input-checks.js';

/**
 * Bounds what is handed on: a message or an input of over 2 MiB fails the workflow task for ever. A run that is not in
 * the line tries by itself.
 */
export const MAX_WAITING = 1_000;
/** An ISO 8601 time is shorter, and a run's id is at most so long as JSON, its quotes included. */
const MAX_TIME_CHARACTERS = 40;
const MAX_ID_JSON_BYTES = LIMIT.workflowIdBytes + 2;

/** The runs that a message names. */
export function waitersIn(message: unknown): LockWaiter[] {
  const { waiting } = fieldsOf(message);
  return Array.isArray(waiting) ? waiting.flatMap((item: unknown) => waiterIn(item) ?? []).slice(0, MAX_WAITING) : [];
}

function waiterIn(item: unknown): LockWaiter | null {
  const { workflowId, scheduledAt, startedAt } = fieldsOf(item);
  const hasTimes = isTime(scheduledAt) && isTime(startedAt);
  return isWorkflowId(workflowId) && hasTimes ? { workflowId, scheduledAt, startedAt } : null;
}

/** The holder that a lock was started for; null where the input names none. */
export function holderIn(input: unknown): RecurringJobLockInput['holder'] | null {
  const { workflowId, runId, job } = fieldsOf(fieldsOf(input)['holder']);
  const isHolder = isWorkflowId(workflowId) && isRunId(runId) && isWorkflowId(job);
  return isHolder ? { workflowId, runId, job } : null;
}

/** When the lock's input says that the Schedule was removed; empty where it does not. */
export function removalIn(input: unknown): string {
  const { removedAt } = fieldsOf(input);
  return isTime(removedAt) ? removedAt : '';
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_TIME_CHARACTERS;
}

function isRunId(value: unknown): value is string {
  return typeof value === 'string' && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value);
}

/** The server fails the workflow task that signals an id which no workflow can have. */
function isWorkflowId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && jsonBytes(value) <= MAX_ID_JSON_BYTES;
}

/** The lock's answer, where the message is one. */
export function answersIn(message: unknown): LockAnswer[] {
  const { kind } = fieldsOf(message);
  return kind === 'free' || kind === 'removed' ? [{ kind, waiting: waitersIn(message) }] : [];
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

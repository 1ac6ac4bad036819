/**
 * Reads the messages between runs and their lock. Anybody may signal a workflow, and an error in a handler would fail
 * its workflow task for ever: what is malformed counts as absent.
 */
import { LIMIT, type LockAnswer, type LockWaiter, type RecurringJobLockInput } from '../../contract.js';
import { utf8Bytes } from '../../contract/input-checks.js';

/** The runs that a message names. */
export function waitersIn(message: unknown): LockWaiter[] {
  const { waiting } = fieldsOf(message);
  return Array.isArray(waiting) ? waiting.flatMap((item: unknown) => waiterIn(item) ?? []) : [];
}

function waiterIn(item: unknown): LockWaiter | null {
  const { workflowId, scheduledAt, startedAt } = fieldsOf(item);
  const hasTimes = typeof scheduledAt === 'string' && typeof startedAt === 'string';
  return isWorkflowId(workflowId) && hasTimes ? { workflowId, scheduledAt, startedAt } : null;
}

/** The holder that a lock was started for; null where the input names none. */
export function holderIn(input: unknown): RecurringJobLockInput['holder'] | null {
  const { workflowId, runId, job } = fieldsOf(fieldsOf(input)['holder']);
  const isHolder = isWorkflowId(workflowId) && isRunId(runId) && typeof job === 'string';
  return isHolder ? { workflowId, runId, job } : null;
}

/** When the lock's input says that the Schedule was removed; empty where it does not. */
export function removalIn(input: unknown): string {
  const { removedAt } = fieldsOf(input);
  return typeof removedAt === 'string' ? removedAt : '';
}

function isRunId(value: unknown): value is string {
  return typeof value === 'string' && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value);
}

/** The server fails the workflow task that signals an id which no workflow can have. */
function isWorkflowId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && utf8Bytes(value) <= LIMIT.workflowIdBytes;
}

/** The lock's answer, where the message is one. */
export function answersIn(message: unknown): LockAnswer[] {
  const { kind } = fieldsOf(message);
  return kind === 'free' || kind === 'removed' ? [{ kind, waiting: waitersIn(message) }] : [];
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

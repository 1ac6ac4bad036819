/**
 * Workflows as Temporal's visibility shows them: which have not closed, paused ones too, and conditions of its query
 * language, whatever characters their values have.
 */
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW, REQUEST_QUEUE_WORKFLOW, VISITOR_EXPORT_WORKFLOW } from '../contract.js';
import { WEBHOOK_DELIVERY_WORKFLOW, WEBHOOK_SWEEP_WORKFLOW } from '../contract/webhooks.js';
import { toMs } from './heartbeats.js';

/** As a condition of visibility's query language. Servers before 1.30 do not know the status `Paused`. */
export const IS_OPEN = 'CloseTime IS NULL';

const CLOSED: readonly string[] = ['COMPLETED', 'FAILED', 'CANCELLED', 'TERMINATED', 'TIMED_OUT', 'CONTINUED_AS_NEW'];

/** By Temporal's status. One that this release does not know counts as open: nothing goes on from such a run. */
export function isOpen(status: string): boolean {
  return !CLOSED.includes(status);
}

/** When a workflow was paused, by whom and why, in words; null if it is not paused. */
export function pauseOf({ status, raw }: Pick<WorkflowExecutionDescription, 'status' | 'raw'>): string | null {
  if (status.name !== 'PAUSED') return null;
  const { pausedTime, identity, reason } = raw.workflowExtendedInfo?.pauseInfo ?? {};
  const since = pausedTime ? new Date(toMs(pausedTime)).toISOString() : undefined;
  const parts = ['paused', since && `since ${since}`, identity && `by ${identity}`, reason && `(${reason})`];
  return parts.filter(Boolean).join(' ');
}

/** Who may let a paused workflow go on, and how. */
export function unpauseText(workflowId: string): string {
  const id = workflowId.replaceAll("'", String.raw`'\''`);
  return `with write access to the namespace, let it go on: temporal workflow unpause --workflow-id '${id}'`;
}

/** A value in quotes. */
export function quoted(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

/** Every workflow type of this package. */
export const WORKFLOW_TYPES: readonly string[] = [
  ...[AGENT_JOB_WORKFLOW, REQUEST_QUEUE_WORKFLOW, VISITOR_EXPORT_WORKFLOW],
  ...[WEBHOOK_SWEEP_WORKFLOW, WEBHOOK_DELIVERY_WORKFLOW],
];
/** Asks for the workflows of this package. */
export const IS_OURS = `WorkflowType IN (${WORKFLOW_TYPES.map(quoted).join(', ')})`;

/** Asks for the open runs that only workers of a version serve, which Temporal writes as `DEPLOYMENT:BUILD_ID`. */
export function openRunsPinnedTo(version: string): string {
  const ofVersion = `TemporalWorkerDeploymentVersion = ${quoted(version)}`;
  return `${ofVersion} AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ${IS_OPEN}`;
}

/**
 * Asks for a value. No server was found to take `"` and `\` quoted, nor `'` at either end, nor NUL: the query asks for
 * what precedes them, and the rest is compared as jobs are read.
 */
export function equals(attribute: string, value: string): string {
  const [start = ''] = /^(?!')[^"\\\0]*[^"\\\0']/.exec(value) ?? [];
  if (start === value) return `${attribute} = ${quoted(value)}`;
  return start === '' ? `${attribute} IS NOT NULL` : `${attribute} STARTS_WITH ${quoted(start)}`;
}

/**
 * Asks for a value of a list of keywords, which takes no beginning of one. A dev server takes upper case for lower case
 * there: what is read must be compared.
 */
export function includes(attribute: string, value: string): string {
  const exact = `${attribute} = ${quoted(value)}`;
  return equals(attribute, value) === exact ? exact : `${attribute} IS NOT NULL`;
}

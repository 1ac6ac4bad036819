/**
 * Which jobs a filter asks for: what a query of Temporal's visibility can say, and what is compared as jobs are read.
 */
import {
  AGENT_JOB_WORKFLOW,
  SEARCH_ATTRIBUTE,
  type JobOutcome,
  type Phase,
  type ShownWaitingFor,
} from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { equals, includes, isExact, quoted } from '../visibility-query.js';

/** Which jobs to list; what is left out does not restrict. */
export interface JobFilter {
  phase?: Phase | null | undefined;
  projectId?: string | null | undefined;
  /** The label of jobs that were started together. */
  batch?: string | null | undefined;
  /** Only jobs that have all of these. */
  tags?: readonly string[] | null | undefined;
  /** Only jobs that ended so. */
  outcome?: JobOutcome | null | undefined;
  /** The upstream's own status, as last read. */
  status?: string | null | undefined;
  /** Only workflows that have not closed. */
  isRunning?: boolean | null | undefined;
  /** Only running jobs that wait for this. */
  waitingFor?: ShownWaitingFor | null | undefined;
  /** Only runs that started at this time or later. */
  startedAfter?: Date | string | null | undefined;
  /** Only runs that started before this time. */
  startedBefore?: Date | string | null | undefined;
  /** Only runs that closed at this time or later. */
  closedAfter?: Date | string | null | undefined;
  /** Only runs that closed before this time. */
  closedBefore?: Date | string | null | undefined;
}

/** What of a job a filter is compared with. */
interface Compared {
  projectId: string | null;
  batch: string | null;
  tags: readonly string[];
  status: string | null;
  outcome: JobOutcome | null;
}

/** The query for a filter: no job that fits is missing. Throws InvalidInputError where a time is none. */
export function jobQuery(filter: JobFilter): string {
  const { phase, projectId, batch, tags, status, isRunning, waitingFor, outcome } = filter;
  const isOpen = isRunning || waitingFor != null;
  return [
    `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)}`,
    isOpen ? `ExecutionStatus = 'Running'` : `ExecutionStatus != 'ContinuedAsNew'`,
    ...(phase == null ? [] : [`${SEARCH_ATTRIBUTE.phase} = ${quoted(phase)}`]),
    ...(waitingFor == null ? [] : [waitsFor(waitingFor)]),
    ...(projectId == null ? [] : [equals(SEARCH_ATTRIBUTE.project, projectId)]),
    ...(batch == null ? [] : [equals(SEARCH_ATTRIBUTE.batch, batch)]),
    ...(tags ?? []).map((tag) => includes(SEARCH_ATTRIBUTE.tags, tag)),
    ...(status == null ? [] : [equals(SEARCH_ATTRIBUTE.status, status)]),
    ...(outcome == null ? [] : [endedAs(outcome)]),
    ...times(filter),
  ].join(' AND ');
}

/** Whether the query of a filter finds what fits it and, but for the case of tags on a dev server, nothing else. */
export function isExactQuery({ projectId, batch, tags, status, outcome }: JobFilter): boolean {
  const values = [projectId, batch, status].filter((value) => value != null);
  const isTold = outcome == null || outcome in ENDED_BY;
  return isTold && values.every(isExact) && (tags ?? []).every(isExact);
}

/** Whether a job that a query found is one that the filter asks for. */
export function isAsked(job: Compared, { projectId, batch, tags, status, outcome }: JobFilter): boolean {
  const isSame = (value: string | null, asked: string | null | undefined) => asked == null || value === asked;
  return (
    isSame(job.projectId, projectId) &&
    isSame(job.batch, batch) &&
    isSame(job.status, status) &&
    isSame(job.outcome, outcome) &&
    (tags ?? []).every((tag) => job.tags.includes(tag))
  );
}

/** Every release tells by the phase that a person must decide. */
function waitsFor(what: ShownWaitingFor): string {
  const needsAttention: Phase = 'needsAttention';
  return what === 'person'
    ? `${SEARCH_ATTRIBUTE.phase} = ${quoted(needsAttention)}`
    : `${SEARCH_ATTRIBUTE.waitingFor} = ${quoted(what)}`;
}

/** What Temporal itself tells. */
const ENDED_BY = { Canceled: 'Canceled', Terminated: 'Terminated', TimedOut: 'TimedOut' } as const;
const FAILURES: readonly JobOutcome[] = ['InvalidInput', 'CreateRejected', 'UnknownOutcome'];

/** A job that an older release ended, or whose input was refused, has no attribute: its end is read. */
function endedAs(outcome: JobOutcome): string {
  if (outcome in ENDED_BY) return `ExecutionStatus = ${quoted(outcome)}`;
  const status = FAILURES.includes(outcome) ? 'Failed' : 'Completed';
  const { outcome: attribute } = SEARCH_ATTRIBUTE;
  return `ExecutionStatus = '${status}' AND (${attribute} = ${quoted(outcome)} OR ${attribute} IS NULL)`;
}

const TIMES = [
  ['startedAfter', 'StartTime >='],
  ['startedBefore', 'StartTime <'],
  ['closedAfter', 'CloseTime >='],
  ['closedBefore', 'CloseTime <'],
] as const;

function times(filter: JobFilter): string[] {
  return TIMES.flatMap(([field, comparison]) => {
    const time = filter[field];
    if (time == null) return [];
    const at = new Date(time);
    if (!Number.isNaN(at.getTime())) return [`${comparison} ${quoted(at.toISOString())}`];
    throw new InvalidInputError(field, 'must be a Date, or a time such as 2026-01-31T09:15:00Z');
  });
}

/** One row of a list of jobs, from what Temporal's visibility has of a run. */
import type { WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { ENDED_BY } from '../../agent-job/closed-run.js';
import { labelsOf } from '../../agent-job/fields.js';
import { AGENT_JOB_WORKFLOW, FAILURE, MEMO, SEARCH_ATTRIBUTE } from '../../contract.js';
import type { JobMetadata, JobOutcome, Phase, ShownWaitingFor } from '../../contract.js';
import { InvalidInputError } from '../../contract/errors.js';
import { IS_OPEN, isOpen } from '../../temporal/open-workflows.js';
import { checkNames, type Names } from '../settings.js';
import { equals, includes, quoted } from '../visibility-query.js';

/** One job as Temporal lists it; may lag a moment behind the workflow. */
export interface JobSummary {
  workflowId: string;
  /** The id of the newest run. */
  runId: string;
  /** Project and the prompt's first line; null if another client than ours started the job. */
  title: string | null;
  projectId: string | null;
  phase: Phase | null;
  batch: string | null;
  tags: string[];
  metadata: JobMetadata;
  /** The upstream's own status, as last read. */
  status: string | null;
  /** Null while it runs. */
  outcome: JobOutcome | null;
  /** What a running job waits for, if that may last; null if it waits for none of these. */
  waitingFor: ShownWaitingFor | null;
  jobId: string | null;
  prLink: string | null;
  /** Temporal's status of the workflow, such as `RUNNING`; a paused one is `PAUSED`, and has not ended. */
  workflowStatus: string;
  startedAt: string;
  endedAt: string | null;
}

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
const BATCH = defineSearchAttributeKey(SEARCH_ATTRIBUTE.batch, SearchAttributeType.KEYWORD);
const TAGS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, SearchAttributeType.KEYWORD_LIST);
const STATUS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.status, SearchAttributeType.KEYWORD);
const OUTCOME = defineSearchAttributeKey(SEARCH_ATTRIBUTE.outcome, SearchAttributeType.KEYWORD);
const WAITING_FOR = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, SearchAttributeType.KEYWORD);

/** A run as it is listed, or described. */
type SeenRun = Omit<WorkflowExecutionInfo, 'raw'>;

/** The row of a run. */
export function toSummary(run: SeenRun): JobSummary {
  const attributes = run.typedSearchAttributes;
  return {
    workflowId: run.workflowId,
    runId: run.runId,
    title: textOrNull(run.memo?.[MEMO.title]),
    projectId: attributes.get(PROJECT) ?? null,
    phase: (attributes.get(PHASE) as Phase | undefined) ?? null,
    batch: attributes.get(BATCH) ?? null,
    tags: attributes.get(TAGS) ?? [],
    metadata: labelsOf({ metadata: run.memo?.[MEMO.metadata] }).metadata,
    status: attributes.get(STATUS) ?? null,
    outcome: outcomeOf(run),
    waitingFor: waitingForOf(run),
    jobId: textOrNull(run.memo?.[MEMO.jobId]),
    prLink: textOrNull(run.memo?.[MEMO.prLink]),
    workflowStatus: run.status.name,
    startedAt: run.startTime.toISOString(),
    // Some servers list a paused one with a time.
    endedAt: isOpen(run.status.name) ? null : (run.closeTime?.toISOString() ?? null),
  };
}

/** What a memo holds, if it is text. */
export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Only a job whose input was refused fails without the attribute. */
function outcomeOf({ typedSearchAttributes, status }: SeenRun): JobOutcome | null {
  if (isOpen(status.name)) return null;
  const known = typedSearchAttributes.get(OUTCOME) as JobOutcome | undefined;
  return ENDED_BY[status.name] ?? known ?? (status.name === 'FAILED' ? FAILURE.invalidInput : null);
}

/** A job that was terminated keeps what it waited for. */
function waitingForOf({ typedSearchAttributes, status }: SeenRun): ShownWaitingFor | null {
  if (!isOpen(status.name)) return null;
  return (typedSearchAttributes.get(WAITING_FOR) as ShownWaitingFor | undefined) ?? null;
}

// Which jobs a filter asks for: what a query of Temporal's visibility can say, and what is compared as jobs are read.

/** Which jobs to list; what is left out does not restrict. */
export interface JobFilter {
  phase?: Phase | null | undefined;
  projectId?: string | null | undefined;
  /** The upstream's id of the job. */
  jobId?: string | null | undefined;
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
  /** Only runs that ended at this time or later. */
  endedAfter?: Date | string | null | undefined;
}

const NAMES: Names<JobFilter> = {
  ...{ phase: true, projectId: true, jobId: true, batch: true, tags: true, outcome: true, status: true },
  ...{ isRunning: true, waitingFor: true },
  ...{ startedAfter: true, startedBefore: true, endedAfter: true },
};

/** The query for a filter: no job that fits is missing. Throws InvalidInputError if a time or a name is none. */
export function jobQuery(filter: JobFilter): string {
  checkNames(filter, 'filter', NAMES);
  const { phase, projectId, jobId, batch, tags, status, waitingFor, outcome } = filter;
  return [
    `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)}`,
    newestRuns(filter),
    ...(phase == null ? [] : [`${SEARCH_ATTRIBUTE.phase} = ${quoted(phase)}`]),
    ...(waitingFor == null ? [] : [`${SEARCH_ATTRIBUTE.waitingFor} = ${quoted(waitingFor)}`]),
    ...(projectId == null ? [] : [equals(SEARCH_ATTRIBUTE.project, projectId)]),
    ...(jobId == null ? [] : [equals(SEARCH_ATTRIBUTE.jobId, jobId)]),
    ...(batch == null ? [] : [equals(SEARCH_ATTRIBUTE.batch, batch)]),
    ...(tags ?? []).map((tag) => includes(SEARCH_ATTRIBUTE.tags, tag)),
    ...(status == null ? [] : [equals(SEARCH_ATTRIBUTE.status, status)]),
    ...(outcome == null ? [] : [endedAs(outcome)]),
    ...times(filter),
  ].join(' AND ');
}

function newestRuns({ isRunning, waitingFor }: JobFilter): string {
  return isRunning || waitingFor != null ? IS_OPEN : `ExecutionStatus != 'ContinuedAsNew'`;
}

/** Whether a job is one that the filter asks for. */
export function isAsked(job: JobSummary, filter: JobFilter): boolean {
  const { tags, isRunning, waitingFor } = filter;
  const isSame = (field: (typeof SAME)[number]) => filter[field] == null || job[field] === filter[field];
  return (
    SAME.every(isSame) &&
    (tags ?? []).every((tag) => job.tags.includes(tag)) &&
    (isOpen(job.workflowStatus) || !(isRunning || waitingFor != null)) &&
    TIMES.every(([field, , isIn]) => filter[field] == null || isIn(job, new Date(filter[field]).toISOString()))
  );
}

const SAME = ['phase', 'projectId', 'jobId', 'batch', 'status', 'outcome', 'waitingFor'] as const;

function endedAs(outcome: JobOutcome): string {
  // What Temporal itself knows.
  if (Object.values(ENDED_BY).includes(outcome as never)) return `ExecutionStatus = ${quoted(outcome)}`;
  const { outcome: attribute } = SEARCH_ATTRIBUTE;
  if (outcome === FAILURE.invalidInput) return `ExecutionStatus = 'Failed' AND ${attribute} IS NULL`;
  return `${attribute} = ${quoted(outcome)}`;
}

type IsIn = (job: JobSummary, time: string) => boolean;

/** Each bound, as a query says it, and as two times of the same form are compared. */
const TIMES: readonly ['startedAfter' | 'startedBefore' | 'endedAfter', string, IsIn][] = [
  ['startedAfter', 'StartTime >=', ({ startedAt }, time) => startedAt >= time],
  ['startedBefore', 'StartTime <', ({ startedAt }, time) => startedAt < time],
  ['endedAfter', 'CloseTime >=', ({ endedAt }, time) => endedAt !== null && endedAt >= time],
];

function times(filter: JobFilter): string[] {
  return TIMES.flatMap(([field, comparison]) => {
    const time = filter[field];
    if (time == null) return [];
    const at = new Date(time);
    if (!Number.isNaN(at.getTime())) return [`${comparison} ${quoted(at.toISOString())}`];
    throw new InvalidInputError(field, 'must be a Date, or a time such as 2026-01-31T09:15:00Z');
  });
}

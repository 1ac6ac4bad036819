/**
 * Jobs as Temporal's visibility lists them: the row of a run, which runs a filter asks for, and the order: open runs
 * first, the newest first, then closed ones by their end.
 */
import { createHash } from 'node:crypto';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { ENDED_BY } from '../../agent-job/closed-run.js';
import { labelsOf } from '../../agent-job/fields.js';
import { keyOf, TAGS_KEY } from '../../agent-job/start-options.js';
import { AGENT_JOB_WORKFLOW, FAILURE, LIMIT, MEMO, SEARCH_ATTRIBUTE } from '../../contract.js';
import type { JobMetadata, JobOutcome, Phase, ShownWaitingFor } from '../../contract.js';
import { InvalidInputError } from '../../contract/errors.js';
import { whole } from '../../contract/kinds.js';
import { equals, includes, IS_OPEN, isOpen, quoted } from '../../temporal/visibility.js';
import { readListPage } from '../../temporal/private/list-page.js';
import { type CallOptions, checkNames, type Names } from '../settings.js';
import { listWorkflows, temporalCall } from '../temporal-call.js';

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
  /** The upstream's own status, as last polled. */
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

/** A run as it is listed, or described. */
type SeenRun = Omit<WorkflowExecutionInfo, 'raw'>;

/** The row of a run. */
export function toSummary(run: SeenRun): JobSummary {
  const attributes = run.typedSearchAttributes;
  return {
    workflowId: run.workflowId,
    runId: run.runId,
    title: textOrNull(run.memo?.[MEMO.title]),
    projectId: attributes.get(keyOf('project')) ?? null,
    phase: (attributes.get(keyOf('phase')) as Phase | undefined) ?? null,
    batch: attributes.get(keyOf('batch')) ?? null,
    tags: attributes.get(TAGS_KEY) ?? [],
    metadata: labelsOf({ metadata: run.memo?.[MEMO.metadata] }).metadata,
    status: attributes.get(keyOf('status')) ?? null,
    outcome: outcomeOf(run),
    waitingFor: waitingForOf(run),
    jobId: attributes.get(keyOf('jobId')) ?? null,
    prLink: attributes.get(keyOf('prLink')) ?? textOrNull(run.memo?.[MEMO.prLink]),
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

/** Only a job whose input is invalid fails without the attribute. */
function outcomeOf({ typedSearchAttributes, status }: SeenRun): JobOutcome | null {
  if (isOpen(status.name)) return null;
  const known = typedSearchAttributes.get(keyOf('outcome')) as JobOutcome | undefined;
  return ENDED_BY[status.name] ?? known ?? (status.name === 'FAILED' ? FAILURE.invalidInput : null);
}

/** A job that was terminated keeps what it waited for. */
function waitingForOf({ typedSearchAttributes, status }: SeenRun): ShownWaitingFor | null {
  if (!isOpen(status.name)) return null;
  return (typedSearchAttributes.get(keyOf('waitingFor')) as ShownWaitingFor | undefined) ?? null;
}

// Which jobs a filter asks for: what a query of Temporal's visibility can say, and what is compared as jobs are read.

/** Which jobs to list; what is left out does not restrict. */
export interface JobFilter {
  phase?: Phase | null | undefined;
  projectId?: string | null | undefined;
  /** The upstream's id of the job. */
  jobId?: string | null | undefined;
  /** The pull request that a run of the job has seen last. */
  prLink?: string | null | undefined;
  /** The label of jobs that were started together. */
  batch?: string | null | undefined;
  /** Only jobs that have all of these. */
  tags?: readonly string[] | null | undefined;
  /** Only jobs that ended so. */
  outcome?: JobOutcome | null | undefined;
  /** The upstream's own status, as last polled. */
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

/** The query for a filter: no job that fits is missing. Throws InvalidInputError if a time or a name is none. */
export function jobQuery(filter: JobFilter): string {
  checkNames(filter, 'filter', FILTER_NAMES);
  const { prLink, tags, waitingFor, outcome, isRunning } = filter;
  const most = LIMIT.prLinkAttributeCharacters;
  if (prLink != null && prLink.length > most) {
    throw new InvalidInputError('prLink', `must have at most ${most} characters: a longer link is not indexed`);
  }
  return [
    `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)}`,
    isRunning || waitingFor != null ? IS_OPEN : `ExecutionStatus != 'ContinuedAsNew'`,
    ...SAME.flatMap((field) => {
      const value = filter[field];
      return value == null ? [] : [equals(SEARCH_ATTRIBUTE[field === 'projectId' ? 'project' : field], value)];
    }),
    ...(tags ?? []).map((tag) => includes(SEARCH_ATTRIBUTE.tags, tag)),
    ...(outcome == null ? [] : [endedAs(outcome)]),
    ...times(filter),
  ].join(' AND ');
}

function isAsked(job: JobSummary, filter: JobFilter): boolean {
  const { tags, isRunning, waitingFor } = filter;
  return (
    [...SAME, 'outcome' as const].every((field) => filter[field] == null || job[field] === filter[field]) &&
    (tags ?? []).every((tag) => job.tags.includes(tag)) &&
    (isOpen(job.workflowStatus) || !(isRunning || waitingFor != null)) &&
    TIME_FILTERS.every(([field, , isIn]) => filter[field] == null || isIn(job, new Date(filter[field]).toISOString()))
  );
}

const SAME = ['phase', 'projectId', 'jobId', 'prLink', 'batch', 'status', 'waitingFor'] as const;

function endedAs(outcome: JobOutcome): string {
  // What Temporal itself knows.
  if (Object.values<string>(ENDED_BY).includes(outcome)) return `ExecutionStatus = ${quoted(outcome)}`;
  const { outcome: attribute } = SEARCH_ATTRIBUTE;
  if (outcome === FAILURE.invalidInput) return `ExecutionStatus = 'Failed' AND ${attribute} IS NULL`;
  return `${attribute} = ${quoted(outcome)}`;
}

type IsIn = (job: JobSummary, time: string) => boolean;

/** Each bound, as a query says it, and as two times of the same form are compared. */
const TIME_FILTERS: readonly ['startedAfter' | 'startedBefore' | 'endedAfter', string, IsIn][] = [
  ['startedAfter', 'StartTime >=', ({ startedAt }, time) => startedAt >= time],
  ['startedBefore', 'StartTime <', ({ startedAt }, time) => startedAt < time],
  ['endedAfter', 'CloseTime >=', ({ endedAt }, time) => endedAt !== null && endedAt >= time],
];

const FIELDS = [...SAME, 'tags', 'outcome', 'isRunning', ...TIME_FILTERS.map(([field]) => field)] as const;
/** Its type makes sure that no field of a filter is missing above. */
const FILTER_NAMES: Names<JobFilter> = Object.fromEntries(FIELDS.map((field) => [field, true])) as AllFields;
type AllFields = Record<(typeof FIELDS)[number], true>;

function times(filter: JobFilter): string[] {
  return TIME_FILTERS.flatMap(([field, comparison]) => {
    const time = filter[field];
    if (time == null) return [];
    const at = new Date(time);
    if (!Number.isNaN(at.getTime())) return [`${comparison} ${quoted(at.toISOString())}`];
    throw new InvalidInputError(field, 'must be a Date, or a time such as 2026-01-31T09:15:00Z');
  });
}

/** Runs of one request: a caller that stops early has not waited for a thousand. */
const PAGE_SIZE = 200;
const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1_000;
const HASH_CHARACTERS = 12;

interface ListSettings extends CallOptions {
  /** One more condition in the server's query language. */
  condition?: string | undefined;
  pageSize?: number;
}

/** Lists runs, each that a follow-up made. */
export async function* listRuns(
  client: Client,
  filter: JobFilter,
  { condition, pageSize = PAGE_SIZE, ...options }: ListSettings = {},
): AsyncGenerator<JobSummary, void, undefined> {
  const query = [jobQuery(filter), ...(condition === undefined ? [] : [condition])].join(' AND ');
  for await (const found of listWorkflows(client, query, { ...options, pageSize })) {
    const run = toSummary(found);
    if (isAsked(run, filter)) yield run;
  }
}

/**
 * Lists jobs: of the runs of a workflow id that fit, the one that the server lists first, which is the newest. A job
 * that ends or goes on while the list is read may be missing.
 */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  settings: ListSettings = {},
): AsyncGenerator<JobSummary, void, undefined> {
  const isFirst = onceByJob();
  for await (const run of listRuns(client, filter, settings)) if (isFirst(run)) yield run;
}

function onceByJob(): (run: JobSummary) => boolean {
  const listed = new Set<string>();
  return ({ workflowId }) => {
    const isFirst = !listed.has(workflowId);
    listed.add(workflowId);
    return isFirst;
  };
}

/** Which page of a list to read. */
export interface PageOptions extends CallOptions {
  /** How many jobs at most, 1 to 1,000; default 100. */
  pageSize?: number | null | undefined;
  /** The `nextCursor` of the page before. */
  cursor?: string | null | undefined;
}

/** Those besides the limits of a call. */
export const PAGE_OPTIONS: Names<Omit<PageOptions, keyof CallOptions>> = { pageSize: true, cursor: true };

/** Some jobs of a list. A job may come again on a later page, by an earlier run: know jobs by `workflowId`. */
export interface JobPage {
  /** Fewer than the page's size do not mean the end. */
  jobs: JobSummary[];
  /** The cursor of the next page; null at the end. It is of use as long as Temporal keeps what it points at. */
  nextCursor: string | null;
}

/** Reads one page of `listJobs`. Throws InvalidInputError for what is no cursor. */
export async function readJobPage(
  client: Client,
  filter: JobFilter,
  { pageSize, cursor, ...options }: PageOptions,
): Promise<JobPage> {
  const size = whole(1, MAX_PAGE_SIZE).check(pageSize ?? DEFAULT_PAGE_SIZE, 'pageSize');
  const token = cursor == null ? null : readCursor(cursor);
  const request = { query: jobQuery(filter), pageSize: size, token };
  const page = await temporalCall(client, options, () => readListPage(client, request));
  const runs = page.runs.map(toSummary).filter((run) => isAsked(run, filter));
  return { jobs: runs.filter(onceByJob()), nextCursor: page.token && toCursor(page.token) };
}

/** The server's token as callers carry it, after its hash: a server reports one that it can't read as an outage. */
function toCursor(token: Uint8Array): string {
  const hash = createHash('sha256').update(token).digest('base64url');
  return `${hash.slice(0, HASH_CHARACTERS)}${Buffer.from(token).toString('base64url')}`;
}

/** Throws InvalidInputError if the text is no cursor. */
function readCursor(cursor: unknown): Uint8Array {
  const text = typeof cursor === 'string' ? cursor : '';
  const token = new Uint8Array(Buffer.from(text.slice(HASH_CHARACTERS), 'base64url'));
  if (token.length > 0 && toCursor(token) === cursor) return token;
  throw new InvalidInputError('cursor', 'must be the nextCursor of a page of the same list');
}

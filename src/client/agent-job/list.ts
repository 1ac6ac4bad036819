/** Jobs as Temporal's visibility lists them, one row a job, without asking a worker. */
import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { AGENT_JOB_WORKFLOW, attachedJobWorkflowId } from '../../contract.js';
import { checkWholeNumber, InvalidInputError } from '../../contract/input-checks.js';
import { readListPage } from '../../temporal/workflow-clients.js';
import { concurrently } from '../concurrently.js';
import { JobNotFoundError, TemporalCallError } from '../errors.js';
import type { Names } from '../known-fields.js';
import { type CallOptions, listWorkflows, temporalCall } from '../temporal-call.js';
import { isNotFound } from '../temporal-errors.js';
import { isAskable, quoted, workflowIdIn } from '../visibility-query.js';
import {
  isAsked,
  isByLabel,
  isExactQuery,
  type JobFilter,
  jobQuery,
  type JobSummary,
  toSummary,
} from './job-summary.js';
import { readDescription } from './run-record.js';
import { readOutcome } from './call-job.js';

export type { JobFilter, JobSummary };

/** Jobs of one request: whoever stops early has not waited for a thousand. */
const PAGE_SIZE = 200;
const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1_000;
/** Where most of what a query finds is left out, a page ends short. */
const MAX_REQUESTS_OF_PAGE = 10;
const CHECK_DIGITS = 16;

/** What else to list by, and how. */
interface ListSettings extends CallOptions {
  /** One more condition in the server's query language. */
  condition?: string | undefined;
  pageSize?: number;
  /** Each run counts, whatever follows it. */
  isOfRuns?: boolean;
}

/**
 * Lists jobs, in the server's order: of the runs of a job the newest. What ends or goes on while the list is read may
 * come twice, or not at all.
 */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  { condition, pageSize = PAGE_SIZE, isOfRuns = false, ...options }: ListSettings = {},
): AsyncGenerator<JobSummary, void, undefined> {
  yield* allJobs(client, { filter, options, condition, isOfRuns }, pageSize);
}

async function* allJobs(
  client: Client,
  request: ListRequest,
  pageSize: number,
): AsyncGenerator<JobSummary, void, undefined> {
  let token: Uint8Array | null = null;
  do {
    const rows = await readJobs(client, request, { pageSize, token });
    yield* rows.jobs;
    token = rows.token;
  } while (token !== null);
}

/** Which page of a list to read. */
export interface PageOptions extends CallOptions {
  /** At most so many jobs, 1 to 1,000; default 100. */
  pageSize?: number | null | undefined;
  /** The `nextCursor` of the page before. */
  cursor?: string | null | undefined;
}

/** Those besides the limits of a call. */
export const PAGE_OPTIONS: Names<Omit<PageOptions, keyof CallOptions>> = { pageSize: true, cursor: true };

/**
 * Some jobs of a list. One that ends or goes on in a new run between two pages may come again, as it is then, or be
 * missing: know jobs by `workflowId`.
 */
export interface JobPage {
  /** Fewer than the page's size do not mean the end. */
  jobs: JobSummary[];
  /** Of the next page; null at the end. It is of use as long as Temporal keeps what it points at. */
  nextCursor: string | null;
}

/** Reads one page of `listJobs`. Throws InvalidInputError where the cursor belongs to another list. */
export async function readJobPage(
  client: Client,
  filter: JobFilter,
  { pageSize, cursor, ...options }: PageOptions,
): Promise<JobPage> {
  const size = checkPageSize(pageSize);
  let token = cursor == null ? null : readCursor(filter, cursor);
  const jobs: JobSummary[] = [];
  for (let request = 1; request <= MAX_REQUESTS_OF_PAGE; request++) {
    const rows = await readJobs(client, { filter, options }, { pageSize: size - jobs.length, token });
    jobs.push(...rows.jobs);
    token = rows.token;
    if (token === null || jobs.length === size) break;
  }
  return { jobs, nextCursor: token && toCursor(filter, token) };
}

/** The server's token as callers carry it: bound to the filter that it belongs to. */
export function toCursor(filter: JobFilter, token: Uint8Array): string {
  const place = Buffer.from(token).toString('base64url');
  const check = createHash('sha256')
    .update(`${jobQuery(filter)}\0${place}`)
    .digest('hex');
  return `${check.slice(0, CHECK_DIGITS)}.${place}`;
}

/** Throws InvalidInputError where the cursor is none, or belongs to another list. */
export function readCursor(filter: JobFilter, cursor: unknown): Uint8Array {
  const [, place = ''] = typeof cursor === 'string' ? cursor.split('.') : [];
  const token = new Uint8Array(Buffer.from(place, 'base64url'));
  if (token.length > 0 && cursor === toCursor(filter, token)) return token;
  throw new InvalidInputError(
    'cursor',
    'must be the nextCursor of a page of the same list: the filter must not change',
  );
}

/** Throws InvalidInputError. */
export function checkPageSize(pageSize: number | null | undefined): number {
  return checkWholeNumber(pageSize ?? DEFAULT_PAGE_SIZE, 'pageSize', [1, MAX_PAGE_SIZE]);
}

/** How many jobs a filter finds. */
export interface JobCount {
  total: number;
  /** By Temporal's status of the workflow, such as `RUNNING`. */
  byStatus: Partial<Record<string, number>>;
}

/** Temporal's words of a query's groups, and those of `workflowStatus`. */
const STATUS_NAMES: Readonly<Record<string, string>> = {
  Running: 'RUNNING',
  Completed: 'COMPLETED',
  Failed: 'FAILED',
  Canceled: 'CANCELLED',
  Terminated: 'TERMINATED',
  TimedOut: 'TIMED_OUT',
};

/** Counts what a filter finds, each of a job's runs that a follow-up made: Temporal counts them in one request. */
export async function countJobs(client: Client, filter: JobFilter, options: CallOptions): Promise<JobCount> {
  if (!isExactQuery(filter)) return countListed(allJobs(client, { filter, options, isOfRuns: true }, PAGE_SIZE));
  const { namespace } = client.options;
  const request = { namespace, query: `${jobQuery(filter)} GROUP BY ExecutionStatus` };
  const { count, groups } = await temporalCall(client, options, () =>
    client.workflowService.countWorkflowExecutions(request),
  );
  const byStatus = (groups ?? []).map(({ groupValues, count: jobs }): [string, number] => {
    const name = JSON.parse(Buffer.from(groupValues?.[0]?.data ?? '').toString() || '""') as string;
    return [STATUS_NAMES[name] ?? name, Number(jobs)];
  });
  return { total: Number(count), byStatus: Object.fromEntries(byStatus) };
}

async function countListed(runs: AsyncIterable<JobSummary>): Promise<JobCount> {
  const byStatus: Record<string, number> = {};
  let total = 0;
  for await (const { workflowStatus } of runs) {
    byStatus[workflowStatus] = (byStatus[workflowStatus] ?? 0) + 1;
    total += 1;
  }
  return { total, byStatus };
}

const SCHEDULED = 1; // temporal.api.enums.v1.PendingWorkflowTaskState

/** A look at a job. */
export interface JobLook {
  /** As `listJobs` would show its newest run, without the lag of a list. */
  summary: JobSummary;
  runId: string;
  /** A workflow task waits that no worker has taken yet. */
  isWaitingForWorker: boolean;
}

/** Looks at a job; throws JobNotFoundError. */
export function lookAtJob(client: Client, workflowId: string, options: CallOptions = {}): Promise<JobLook> {
  return temporalCall(client, options, async () => {
    const run = await readDescription(client, workflowId);
    const isWaitingForWorker = run.raw.pendingWorkflowTask?.state === SCHEDULED;
    return { summary: toSummary(run), runId: run.runId, isWaitingForWorker };
  });
}

// What Temporal's visibility lists of jobs: open runs first, the newest first, then closed ones by their end. A run
// that ends or goes on between two pages stands elsewhere by then: it may come twice, or not at all.

/** What to list. */
interface ListRequest {
  filter: JobFilter;
  /** For each request. */
  options: CallOptions;
  /** One more condition in the server's query language. */
  condition?: string | undefined;
  /** Each run counts, whatever follows it. */
  isOfRuns?: boolean;
}

/** Some rows, and where the list goes on. */
interface JobRows {
  jobs: JobSummary[];
  /** The server's; null at the end. */
  token: Uint8Array | null;
}

/** Reads what is asked for of the next so many runs. */
async function readJobs(
  client: Client,
  { filter, options, condition, isOfRuns = false }: ListRequest,
  { pageSize, token }: { pageSize: number; token: Uint8Array | null },
): Promise<JobRows> {
  const query = [jobQuery(filter), ...(condition === undefined ? [] : [condition])].join(' AND ');
  const page = await temporalCall(client, options, () => readListPage(client, { query, pageSize, token }));
  const runs = page.runs.map(toSummary).filter((run) => isAsked(run, { ...filter, outcome: null }));
  const newest = isOfRuns ? runs : await withoutFollowed(client, runs, !isByLabel(filter), options);
  const jobs: JobSummary[] = [];
  for await (const job of concurrently(newest, {}, (run) => withOutcome(client, run, options))) {
    if (isAsked(job, filter)) jobs.push(job);
  }
  return { jobs, token: page.token };
}

/** Of a run that has no attribute of it, as where its input was refused, the end is read. */
async function withOutcome(client: Client, job: JobSummary, options: CallOptions): Promise<JobSummary> {
  const { outcome, workflowId, runId, workflowStatus: status } = job;
  if (outcome !== null || !['COMPLETED', 'FAILED'].includes(status)) return job;
  const read = () => readOutcome(client, { workflowId, runId, status });
  const outcomeOrNull = temporalCall(client, options, read).catch((error: unknown) => {
    options.signal?.throwIfAborted();
    if (error instanceof TemporalCallError) throw error;
    return null; // Gone, or of a key that is not here: one end that can't be read must not end a list.
  });
  return { ...job, outcome: await outcomeOrNull };
}

// Which listed runs are not the last word on their job: a follow-up to an ended job makes a new run under the same
// workflow id, and attaching to its job one under the id of attached jobs.

/** So many ids make a query of some ten thousand characters. */
const IDS_PER_QUERY = 200;

/**
 * The runs that no other run of the same job has followed. A running workflow is always among them. A run under the id
 * of attached jobs has labels of its own: whoever lists by label wants it apart.
 */
async function withoutFollowed(
  client: Client,
  runs: readonly JobSummary[],
  hasAttached: boolean,
  options: CallOptions,
): Promise<JobSummary[]> {
  const closed = runs.filter((run) => !isRunning(run));
  const newest = await readNewest(client, new Set(closed.flatMap((run) => idsOf(run, hasAttached))), options);
  return runs.filter((run) => !isFollowed(run, newest, hasAttached));
}

/** Whether another run follows one, of those that are the newest of their workflow ids. */
export function isFollowed(run: JobSummary, newest: ReadonlyMap<string, JobSummary>, hasAttached: boolean): boolean {
  if (isRunning(run)) return false;
  return idsOf(run, hasAttached).some((id) => {
    const last = newest.get(id);
    return last !== undefined && isLater(last, run);
  });
}

/** Under which ids a later run of the same job may be. */
function idsOf({ workflowId, projectId, jobId }: JobSummary, hasAttached: boolean): string[] {
  const isKnown = hasAttached && projectId !== null && jobId !== null;
  return isKnown ? [workflowId, attachedJobWorkflowId(projectId, jobId)] : [workflowId];
}

function isRunning({ workflowStatus }: JobSummary): boolean {
  return workflowStatus === 'RUNNING';
}

/** Whether a run follows one that is closed. */
function isLater(newest: JobSummary, run: JobSummary): boolean {
  if (newest.runId === run.runId) return false;
  return isRunning(newest) || newest.startedAt >= run.startedAt;
}

async function readNewest(
  client: Client,
  workflowIds: ReadonlySet<string>,
  options: CallOptions,
): Promise<Map<string, JobSummary>> {
  const newest = new Map<string, JobSummary>();
  const take = (run: JobSummary): void => {
    const known = newest.get(run.workflowId);
    if (known === undefined || (!isRunning(known) && isLater(run, known))) {
      newest.set(run.workflowId, run);
    }
  };
  const ids = [...workflowIds];
  const askable = ids.filter(isAskable);
  for (let at = 0; at < askable.length; at += IDS_PER_QUERY) {
    const some = workflowIdIn(askable.slice(at, at + IDS_PER_QUERY));
    const query = `WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)} AND ExecutionStatus != 'ContinuedAsNew' AND ${some}`;
    for await (const run of listWorkflows(client, query, options)) take(toSummary(run));
  }
  for (const id of ids.filter((one) => !isAskable(one))) {
    const run = await temporalCall(client, options, () => readDescription(client, id).catch(nullIfGone));
    if (run !== null) take(toSummary(run));
  }
  return newest;
}

/** Null where Temporal has deleted what was listed. */
function nullIfGone(error: unknown): null {
  if (error instanceof JobNotFoundError || error instanceof WorkflowNotFoundError || isNotFound(error)) return null;
  throw error;
}

/** Jobs as Temporal's visibility lists them, one row a job, without asking a worker. */
import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW } from '../../contract.js';
import { checkWholeNumber, InvalidInputError } from '../../contract/input-checks.js';
import { readListPage } from '../../temporal/workflow-clients.js';
import type { Names } from '../known-fields.js';
import { type CallOptions, listWorkflows, temporalCall } from '../temporal-call.js';
import { isExact, quoted, workflowIdIn } from '../visibility-query.js';
import { isAsked, isExactQuery, type JobFilter, jobQuery, type JobSummary, toSummary } from './job-summary.js';
import { readDescription } from './run-record.js';

export type { JobFilter, JobSummary };

/**
 * Jobs of one request: whoever stops early has not waited for a thousand, and so many ids make a query of some ten
 * thousand characters.
 */
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
 * Lists jobs, in the server's order: of the runs of a workflow id the newest. What ends or goes on while the list is
 * read may come twice, or not at all.
 */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  settings: ListSettings = {},
): AsyncGenerator<JobSummary, void, undefined> {
  let token: Uint8Array | null = null;
  do {
    const rows = await readJobs(client, filter, settings, token);
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
    const missing = Math.min(size - jobs.length, PAGE_SIZE);
    const rows = await readJobs(client, filter, { ...options, pageSize: missing }, token);
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

/** Temporal's words of a query's groups that are not those of `workflowStatus` in lower case. */
const STATUS_NAMES: Readonly<Record<string, string>> = { Canceled: 'CANCELLED', TimedOut: 'TIMED_OUT' };

/** Counts what a filter finds, each of a job's runs that a follow-up made: Temporal counts them in one request. */
export async function countJobs(client: Client, filter: JobFilter, options: CallOptions): Promise<JobCount> {
  if (!isExactQuery(filter)) return countListed(listJobs(client, filter, { ...options, isOfRuns: true }));
  const { namespace } = client.options;
  const request = { namespace, query: `${jobQuery(filter)} GROUP BY ExecutionStatus` };
  const { count, groups } = await temporalCall(client, options, () =>
    client.workflowService.countWorkflowExecutions(request),
  );
  const byStatus = (groups ?? []).map(({ groupValues, count: jobs }): [string, number] => {
    const name = JSON.parse(Buffer.from(groupValues?.[0]?.data ?? '').toString() || '""') as string;
    return [STATUS_NAMES[name] ?? name.toUpperCase(), Number(jobs)];
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

/** Reads a job's newest run as `listJobs` would show it, without the lag of a list; throws JobNotFoundError. */
export function lookAtJob(client: Client, workflowId: string, options: CallOptions = {}): Promise<JobSummary> {
  return temporalCall(client, options, async () => toSummary(await readDescription(client, workflowId)));
}

// What Temporal's visibility lists of jobs: open runs first, the newest first, then closed ones by their end. A run
// that ends or goes on between two pages stands elsewhere by then: it may come twice, or not at all.

/** Some rows, and where the list goes on. */
interface JobRows {
  jobs: JobSummary[];
  /** The server's; null at the end. */
  token: Uint8Array | null;
}

/** Reads what is asked for of the next so many runs. */
async function readJobs(
  client: Client,
  filter: JobFilter,
  { condition, pageSize = PAGE_SIZE, isOfRuns = false, ...options }: ListSettings,
  token: Uint8Array | null,
): Promise<JobRows> {
  const query = [jobQuery(filter), ...(condition === undefined ? [] : [condition])].join(' AND ');
  const page = await temporalCall(client, options, () => readListPage(client, { query, pageSize, token }));
  const runs = page.runs.map(toSummary).filter((run) => isAsked(run, filter));
  return { jobs: isOfRuns ? runs : await withoutFollowed(client, runs, options), token: page.token };
}

/**
 * The runs that no other one of the same workflow id has followed, as a follow-up to an ended job makes one. An id with
 * characters that no query takes is one of a caller's own choice: each of its runs is a row.
 */
async function withoutFollowed(
  client: Client,
  runs: readonly JobSummary[],
  options: CallOptions,
): Promise<JobSummary[]> {
  const closed = new Set(runs.filter((run) => !isRunning(run)).map(({ workflowId }) => workflowId));
  const newest = await readNewest(client, [...closed].filter(isExact), options);
  return runs.filter((run) => !isLater(newest.get(run.workflowId), run));
}

async function readNewest(
  client: Client,
  workflowIds: readonly string[],
  options: CallOptions,
): Promise<ReadonlyMap<string, JobSummary>> {
  const newest = new Map<string, JobSummary>();
  if (workflowIds.length === 0) return newest;
  const conditions = [`WorkflowType = ${quoted(AGENT_JOB_WORKFLOW)}`, `ExecutionStatus != 'ContinuedAsNew'`];
  const query = [...conditions, workflowIdIn(workflowIds)].join(' AND ');
  for await (const found of listWorkflows(client, query, options)) {
    const run = toSummary(found);
    const known = newest.get(run.workflowId);
    if (known === undefined || isLater(run, known)) newest.set(run.workflowId, run);
  }
  return newest;
}

/** Whether a run follows another one of its workflow id. */
function isLater(run: JobSummary | undefined, other: JobSummary): boolean {
  if (run === undefined || run.runId === other.runId || isRunning(other)) return false;
  return isRunning(run) || run.startedAt >= other.startedAt;
}

function isRunning({ workflowStatus }: JobSummary): boolean {
  return workflowStatus === 'RUNNING';
}

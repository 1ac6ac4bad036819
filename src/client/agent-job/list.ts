/** Jobs as Temporal's visibility lists them: open runs first, the newest first, then closed ones by their end. */
import type { Client } from '@temporalio/client';
import { whole } from '../../contract/kinds.js';
import { InvalidInputError } from '../../contract/errors.js';
import { type PageRequest, readListPage, type RunPage } from '../../temporal/workflow-clients.js';
import type { Names } from '../known-fields.js';
import { type CallOptions, listWorkflows, temporalCall } from '../temporal-call.js';
import { isOutage } from '../temporal-errors.js';
import { isAsked, isExactQuery, type JobFilter, jobQuery, type JobSummary, toSummary } from './job-summary.js';
import { readDescription } from './run-record.js';

export type { JobFilter, JobSummary };

/** Runs of one request: a caller that stops early has not waited for a thousand. */
const PAGE_SIZE = 200;
const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1_000;
/** A server reports a cursor that it can't read as an outage. The SDK repeats the request until this time is over. */
const CURSOR_TIMEOUT_MS = 2_000;

/** What else to list by, and how. */
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
  /** At most so many jobs, 1 to 1,000; default 100. */
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

/** Reads one page of `listJobs`. Throws InvalidInputError where the server does not take the cursor. */
export async function readJobPage(
  client: Client,
  filter: JobFilter,
  { pageSize, cursor, ...options }: PageOptions,
): Promise<JobPage> {
  const size = whole(1, MAX_PAGE_SIZE).check(pageSize ?? DEFAULT_PAGE_SIZE, 'pageSize');
  const token = cursor == null ? null : readCursor(cursor);
  const page = await readPage(client, { query: jobQuery(filter), pageSize: size, token }, options);
  const runs = page.runs.map(toSummary).filter((run) => isAsked(run, filter));
  return { jobs: runs.filter(onceByJob()), nextCursor: page.token && toCursor(page.token) };
}

/** A server that answers for the first page, but not for this one, does not take the cursor. */
async function readPage(client: Client, request: PageRequest, options: CallOptions): Promise<RunPage> {
  const read = (token: Uint8Array | null) => readListPage(client, { ...request, token });
  if (request.token === null) return temporalCall(client, options, () => read(null));
  // A deadline ends the SDK's repetitions. An abort would leave the timer of the next one, which throws uncaught where
  // the caller has closed the connection meanwhile.
  const soon = () => client.withDeadline(Date.now() + CURSOR_TIMEOUT_MS, () => read(request.token));
  try {
    return await temporalCall(client, options, soon);
  } catch (error) {
    if (!isOutage(error)) throw error;
    // During an outage this fails too.
    await temporalCall(client, options, () => read(null));
    throw wrongCursor();
  }
}

/** The server's token as callers carry it. */
function toCursor(token: Uint8Array): string {
  return Buffer.from(token).toString('base64url');
}

/** Throws InvalidInputError where the text is no token's. */
function readCursor(cursor: unknown): Uint8Array {
  const token = new Uint8Array(Buffer.from(typeof cursor === 'string' ? cursor : '', 'base64url'));
  if (token.length > 0 && toCursor(token) === cursor) return token;
  throw wrongCursor();
}

/** The error of a cursor that leads nowhere. */
function wrongCursor(): InvalidInputError {
  return new InvalidInputError('cursor', 'must be the nextCursor of a page of the same list');
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
  if (!isExactQuery(filter)) return countListed(listRuns(client, filter, options));
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

/** Jobs as Temporal's visibility lists them: open runs first, the newest first, then closed ones by their end. */
import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { whole } from '../../contract/kinds.js';
import { InvalidInputError } from '../../contract/errors.js';
import { readListPage } from '../../temporal/workflow-clients.js';
import type { CallOptions, Names } from '../settings.js';
import { listWorkflows, temporalCall } from '../temporal-call.js';
import { isAsked, type JobFilter, jobQuery, type JobSummary, toSummary } from './job-summary.js';
import { readDescription } from './run-record.js';

/** What lists are asked for, and show. */
export type { JobFilter, JobSummary };

/** Runs of one request: a caller that stops early has not waited for a thousand. */
const PAGE_SIZE = 200;
const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1_000;
const HASH_CHARACTERS = 12;

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

/** Reads a job's newest run as `listJobs` would show it, without the lag of a list; throws JobNotFoundError. */
export function lookAtJob(client: Client, workflowId: string, options: CallOptions = {}): Promise<JobSummary> {
  return temporalCall(client, options, async () => toSummary(await readDescription(client, workflowId)));
}

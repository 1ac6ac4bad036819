/** Jobs as Temporal's visibility lists them, one row a job, without asking a worker. */
import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { checkWholeNumber, InvalidInputError } from '../../contract/input-checks.js';
import { readListPage } from '../../temporal/list-page.js';
import { inBatches, temporalCall, type CallOptions } from '../temporal-call.js';
import { isAsked, isExactQuery, jobQuery, type JobFilter } from './job-query.js';
import { toSummary, type JobSummary } from './job-summary.js';
import { followedRuns, nullIfGone } from './newest-runs.js';
import { readDescription } from './run-record.js';
import { readOutcome } from './state-query.js';

export type { JobFilter, JobSummary };

/** Jobs of one request: whoever stops early has not waited for a thousand. */
const PAGE_SIZE = 200;
const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1_000;
/** Where most of what a query finds is left out, a page ends short. */
const MAX_REQUESTS_OF_PAGE = 10;

/**
 * Lists jobs, newest first as far as the server sorts them: of the runs of a job the newest. `condition` is one more
 * condition in the server's query language.
 */
export async function* listJobs(
  client: Client,
  filter: JobFilter = {},
  options: CallOptions = {},
  condition?: string,
): AsyncGenerator<JobSummary, void, undefined> {
  const query = [jobQuery(filter), ...(condition === undefined ? [] : [condition])].join(' AND ');
  const list = new JobList(client, { filter, query, options });
  do yield* await list.read(PAGE_SIZE);
  while (!list.isAtEnd);
}

/** Which page of a list to read. */
export interface PageOptions extends CallOptions {
  /** At most so many jobs, 1 to 1,000; default 100. */
  pageSize?: number | null | undefined;
  /** The `nextCursor` of the page before. */
  cursor?: string | null | undefined;
}

/** Some jobs of a list. */
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
  const size = checkWholeNumber(pageSize ?? DEFAULT_PAGE_SIZE, 'pageSize', [1, MAX_PAGE_SIZE]);
  const query = jobQuery(filter);
  const list = new JobList(client, { filter, query, options }, cursor == null ? null : readCursor(query, cursor));
  const jobs: JobSummary[] = [];
  for (let request = 1; request <= MAX_REQUESTS_OF_PAGE && jobs.length < size && !list.isAtEnd; request++) {
    jobs.push(...(await list.read(size - jobs.length)));
  }
  return { jobs, nextCursor: list.token === null ? null : toCursor(query, list.token) };
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
  const query = jobQuery(filter);
  if (!isExactQuery(filter)) return countListed(new JobList(client, { filter, query, options, isOfRuns: true }));
  const { namespace } = client.options;
  const request = { namespace, query: `${query} GROUP BY ExecutionStatus` };
  const { count, groups } = await temporalCall(client, options, () =>
    client.workflowService.countWorkflowExecutions(request),
  );
  const byStatus = (groups ?? []).map(({ groupValues, count: jobs }): [string, number] => {
    const name = JSON.parse(Buffer.from(groupValues?.[0]?.data ?? '').toString() || '""') as string;
    return [STATUS_NAMES[name] ?? name, Number(jobs)];
  });
  return { total: Number(count), byStatus: Object.fromEntries(byStatus) };
}

async function countListed(list: JobList): Promise<JobCount> {
  const byStatus: Record<string, number> = {};
  let total = 0;
  do {
    for (const { workflowStatus } of await list.read(PAGE_SIZE)) {
      byStatus[workflowStatus] = (byStatus[workflowStatus] ?? 0) + 1;
      total += 1;
    }
  } while (!list.isAtEnd);
  return { total, byStatus };
}

interface ListRequest {
  filter: JobFilter;
  query: string;
  /** For each request. */
  options: CallOptions;
  /** Each run counts, whatever follows it. */
  isOfRuns?: boolean;
}

/** A list that is read piece by piece. */
class JobList {
  readonly #client: Client;
  readonly #request: ListRequest;
  /** Jobs that are listed already, by project and id. */
  readonly #listed = new Set<string>();
  #token: Uint8Array | null;
  #hasBegun: boolean;

  constructor(client: Client, request: ListRequest, token: Uint8Array | null = null) {
    this.#client = client;
    this.#request = request;
    this.#token = token;
    this.#hasBegun = token !== null;
  }

  get isAtEnd(): boolean {
    return this.#hasBegun && this.#token === null;
  }

  /** Of the next piece; null at the end. */
  get token(): Uint8Array | null {
    return this.#token;
  }

  /** Reads what is left of so many runs. */
  async read(pageSize: number): Promise<JobSummary[]> {
    const { filter, query, options, isOfRuns = false } = this.#request;
    const page = await temporalCall(this.#client, options, () =>
      readListPage(this.#client, { query, pageSize, token: this.#token }),
    );
    this.#token = page.token;
    this.#hasBegun = true;
    const found = page.runs.map(toSummary).filter((job) => isAsked(job, { ...filter, outcome: null }));
    const jobs = isOfRuns ? found : await this.#newestOf(found);
    const told: JobSummary[] = [];
    for await (const job of inBatches(jobs, (one) => this.#withOutcome(one))) if (isAsked(job, filter)) told.push(job);
    return told;
  }

  async #newestOf(jobs: JobSummary[]): Promise<JobSummary[]> {
    const { filter, options } = this.#request;
    const isByLabel = filter.batch != null || (filter.tags ?? []).length > 0;
    const followed = await followedRuns(this.#client, jobs, !isByLabel, options);
    return jobs.filter((job) => !followed.has(job.runId) && (isByLabel || this.#isFirst(job)));
  }

  /** A job that was attached to before its key's run ended: a list shows the newest run first. */
  #isFirst({ projectId, jobId, workflowStatus }: JobSummary): boolean {
    if (jobId === null) return true;
    const job = JSON.stringify([projectId, jobId]);
    const isFirst = !this.#listed.has(job);
    this.#listed.add(job);
    return isFirst || workflowStatus === 'RUNNING';
  }

  /** Of a run that an older release ended, or whose input was refused, the end is read. */
  async #withOutcome(job: JobSummary): Promise<JobSummary> {
    const { outcome, workflowId, runId, workflowStatus: status } = job;
    if (outcome !== null || !['COMPLETED', 'FAILED'].includes(status)) return job;
    const read = () => readOutcome(this.#client, { workflowId, runId, status });
    return { ...job, outcome: await temporalCall(this.#client, this.#request.options, read).catch(nullIfGone) };
  }
}

const CHECK_DIGITS = 16;

/** Where a page ended: the server's token, bound to the query that it belongs to. */
function toCursor(query: string, token: Uint8Array): string {
  return `${checkOf(query, token)}.${Buffer.from(token).toString('base64url')}`;
}

/** The server's token; throws InvalidInputError where the cursor is none, or belongs to another list. */
function readCursor(query: string, cursor: unknown): Uint8Array {
  const [, text = ''] = typeof cursor === 'string' ? cursor.split('.') : [];
  const token = new Uint8Array(Buffer.from(text, 'base64url'));
  if (token.length > 0 && cursor === toCursor(query, token)) return token;
  throw new InvalidInputError(
    'cursor',
    'must be the nextCursor of a page of the same list: the filter must not change',
  );
}

function checkOf(query: string, token: Uint8Array): string {
  return createHash('sha256').update(`${query}\0`).update(token).digest('hex').slice(0, CHECK_DIGITS);
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

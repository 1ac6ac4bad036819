/**
 * A list of jobs that is read page by page while the jobs go on. Temporal lists open runs first, the newest first, then
 * closed ones by their end. Between two pages a run that closes moves towards the end of what is left, or is told
 * already. A run that continues as new, or a follow-up to an ended job, makes a run at the beginning, where no page
 * comes by any more. Here the run before it brings the new one in.
 */
import type { Client } from '@temporalio/client';
import { readListPage } from '../../temporal/list-page.js';
import { inBatches, temporalCall, type CallOptions } from '../temporal-call.js';
import { isAsked, isByLabel, jobQuery, type JobFilter } from './job-query.js';
import { toSummary, type JobSummary } from './job-summary.js';
import { nullIfGone, readFollowers } from './newest-runs.js';
import { readDescription } from './run-record.js';
import { readOutcome } from './state-query.js';

/**
 * Runs that continued as new are read from so long before the list began. A server whose clock is behind ours by more
 * may hide one, and one that Temporal lists later than that.
 */
const MARGIN_MS = 10 * 60_000;
/** So many jobs are known as told, about 20 MB of names; of a longer list, an earlier one may come again. */
const REMEMBERED = 100_000;

/** What to list. */
export interface ListRequest {
  filter: JobFilter;
  /** For each request. */
  options: CallOptions;
  /** One more condition in the server's query language, which a run that continues another is taken to fit. */
  condition?: string | undefined;
  /** Each run counts, whatever follows it. */
  isOfRuns?: boolean;
}

/** Where a list goes on, for whoever does not know what was told. */
export interface ListPlace {
  /** The server's. */
  token: Uint8Array;
  beganAt: number;
  /** What was listed first: an open run by its start, or a closed one by its end. What comes before it, is new. */
  head: { isOpen: boolean; at: number };
}

/** A list that is read piece by piece. */
export class JobList {
  readonly query: string;
  readonly #client: Client;
  readonly #request: ListRequest;
  readonly #beganAt: number;
  /** Null where the list is read from its beginning, and knows what it told. */
  readonly #from: ListPlace | null;
  #head: ListPlace['head'] | null;
  /** What is told already: jobs by workflow id, and by project and id. */
  readonly #told = new Set<string>();
  #token: Uint8Array | null;
  #hasBegun: boolean;

  constructor(client: Client, request: ListRequest, from: ListPlace | null = null) {
    const { filter, condition } = request;
    this.#client = client;
    this.#request = request;
    this.#from = from;
    this.#beganAt = from?.beganAt ?? Date.now();
    this.#head = from?.head ?? null;
    this.#token = from?.token ?? null;
    this.#hasBegun = from !== null;
    const query = jobQuery(filter, new Date(this.#beganAt - MARGIN_MS));
    this.query = condition === undefined ? query : `${query} AND ${condition}`;
  }

  get isAtEnd(): boolean {
    return this.#hasBegun && this.#token === null;
  }

  /** Where the next piece begins; null at the end. */
  get place(): ListPlace | null {
    return this.#token && this.#head && { token: this.#token, beganAt: this.#beganAt, head: this.#head };
  }

  /** Reads what is left of so many runs. */
  async read(pageSize: number): Promise<JobSummary[]> {
    const { filter, options, isOfRuns = false } = this.#request;
    const request = { query: this.query, pageSize, token: this.#token };
    const page = await temporalCall(this.#client, options, () => readListPage(this.#client, request));
    this.#token = page.token;
    this.#hasBegun = true;
    const runs = page.runs.map(toSummary);
    this.#head ??= headOf(runs);
    const jobs = await this.#newestOf(runs);
    const fresh = jobs.filter((job) => isAsked(job, { ...filter, outcome: null }) && this.#isFirst(job, isOfRuns));
    const told: JobSummary[] = [];
    for await (const job of inBatches(fresh, (one) => this.#withOutcome(one))) if (isAsked(job, filter)) told.push(job);
    return told;
  }

  /** Puts in the place of each run that was followed what followed it, where that may not be told yet. */
  async #newestOf(runs: JobSummary[]): Promise<JobSummary[]> {
    const { filter, options, isOfRuns = false } = this.#request;
    const hasAttached = !isOfRuns && !isByLabel(filter);
    const asked = isOfRuns ? runs.filter(hasContinued) : runs;
    const followers = await readFollowers(this.#client, asked, hasAttached, options);
    const newest: JobSummary[] = [];
    for await (const [run, last] of inBatches(runs, async (one) => [one, await this.#last(one, followers)] as const)) {
      if (last !== null && (last === run || this.#isNew(last))) newest.push(last);
    }
    return newest;
  }

  /** Of a run that continued as new, what continues it may not be listed yet; null where Temporal has deleted that. */
  async #last(run: JobSummary, followers: ReadonlyMap<string, JobSummary>): Promise<JobSummary | null> {
    const follower = followers.get(run.runId);
    if (follower !== undefined || !hasContinued(run)) return follower ?? run;
    const read = () => readDescription(this.#client, run.workflowId);
    const newest = await temporalCall(this.#client, this.#request.options, read).catch(nullIfGone);
    return newest && toSummary(newest);
  }

  /**
   * Whether a run was not there, or stood elsewhere, when the part of the list was read that is not known here. One
   * that ended well before stands where it stood.
   */
  #isNew({ startedAt, closedAt }: JobSummary): boolean {
    if (this.#from === null) return true;
    const { isOpen, at } = this.#from.head;
    if (closedAt !== null && Date.parse(closedAt) <= (isOpen ? this.#beganAt - MARGIN_MS : at)) return false;
    return !isOpen || Date.parse(startedAt) > at;
  }

  /** Of a job that two workflows know, a list shows the newest run first. */
  #isFirst({ workflowId, runId, projectId, jobId, workflowStatus }: JobSummary, isOfRuns: boolean): boolean {
    if (isOfRuns) return this.#remember(runId);
    if (!this.#remember(workflowId)) return false;
    if (jobId === null || isByLabel(this.#request.filter)) return true;
    return this.#remember(JSON.stringify([projectId, jobId])) || workflowStatus === 'RUNNING';
  }

  /** False where it was told before. */
  #remember(name: string): boolean {
    const told = this.#told;
    if (told.has(name)) return false;
    told.add(name);
    if (told.size > REMEMBERED) told.delete(told.values().next().value!);
    return true;
  }

  /** Of a run whose input was refused, the end is read. */
  async #withOutcome(job: JobSummary): Promise<JobSummary> {
    const { outcome, workflowId, runId, workflowStatus: status } = job;
    if (outcome !== null || !['COMPLETED', 'FAILED'].includes(status)) return job;
    const read = () => readOutcome(this.#client, { workflowId, runId, status });
    return { ...job, outcome: await temporalCall(this.#client, this.#request.options, read).catch(nullIfGone) };
  }
}

function headOf([first]: JobSummary[]): ListPlace['head'] | null {
  return first ? { isOpen: first.closedAt === null, at: Date.parse(first.closedAt ?? first.startedAt) } : null;
}

function hasContinued({ workflowStatus }: JobSummary): boolean {
  return workflowStatus === 'CONTINUED_AS_NEW';
}

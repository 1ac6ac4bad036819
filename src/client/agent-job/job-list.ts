/**
 * What Temporal's visibility lists of jobs: open runs first, the newest first, then closed ones by their end. A run
 * that ends or goes on between two pages stands elsewhere by then: it may come twice, or not at all.
 */
import type { Client } from '@temporalio/client';
import { readListPage } from '../../temporal/workflow-clients.js';
import { concurrently } from '../concurrently.js';
import { temporalCall, type CallOptions } from '../temporal-call.js';
import { isAsked, isByLabel, jobQuery, type JobFilter } from './job-query.js';
import { toSummary, type JobSummary } from './job-summary.js';
import { nullIfGone, withoutFollowed } from './newest-runs.js';
import { readOutcome } from './state-query.js';

/** What to list. */
export interface ListRequest {
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
export async function readJobs(
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
  return { ...job, outcome: await temporalCall(client, options, read).catch(nullIfGone) };
}

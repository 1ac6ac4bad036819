/** Lists of fake jobs: what the real client's lists show of the same jobs, in the same order. */
import { isAsked, isByLabel, type JobFilter, jobQuery, type JobSummary } from '../agent-job/job-summary.js';
import {
  checkPageSize,
  isFollowed,
  type JobCount,
  type JobPage,
  type PageOptions,
  readCursor,
  toCursor,
} from '../agent-job/list.js';
import type { FakeJob } from './fake-job.js';

/** One row a job that fits: those that run first, the newest first, then the others by their end. */
export function listFake(jobs: readonly FakeJob[], filter: JobFilter): JobSummary[] {
  return rowsOf(jobs, filter).map(({ row }) => row);
}

/** Some rows. Throws InvalidInputError. */
export function fakePage(
  jobs: readonly FakeJob[],
  filter: JobFilter,
  { pageSize, cursor }: Pick<PageOptions, 'pageSize' | 'cursor'>,
): JobPage {
  const size = checkPageSize(pageSize);
  const after = cursor == null ? Infinity : Number(Buffer.from(readCursor(filter, cursor)));
  const rows = rowsOf(jobs, filter).filter(({ order }) => order < after);
  const page = rows.slice(0, size);
  const token = new Uint8Array(Buffer.from(String(page.at(-1)?.order)));
  const nextCursor = rows.length > size ? toCursor(filter, token) : null;
  return { jobs: page.map(({ row }) => row), nextCursor };
}

/** Counts each run. Throws InvalidInputError. */
export function countFake(jobs: readonly FakeJob[], filter: JobFilter): JobCount {
  jobQuery(filter);
  const runs = jobs.flatMap(({ earlierRuns, summary }) => [...earlierRuns, summary]);
  const found = runs.filter((run) => isAsked(run, filter));
  const byStatus: Record<string, number> = {};
  for (const { workflowStatus } of found) byStatus[workflowStatus] = (byStatus[workflowStatus] ?? 0) + 1;
  return { total: found.length, byStatus };
}

/** More than all starts and ends. */
const OPEN = 2 ** 40;

interface Row {
  row: JobSummary;
  /** The greatest comes first. */
  order: number;
}

function rowsOf(jobs: readonly FakeJob[], filter: JobFilter): Row[] {
  jobQuery(filter);
  const newest = new Map(jobs.map(({ workflowId, summary }) => [workflowId, summary]));
  return jobs
    .map(({ move, hasEnded, summary: row }) => ({ row, order: Number(!hasEnded) * OPEN + move }))
    .filter(({ row }) => isAsked(row, filter) && !isFollowed(row, newest, !isByLabel(filter)))
    .toSorted((a, b) => b.order - a.order);
}

/** `wait --batch`: waits until every job of a batch has ended. */
import { setTimeout as delay } from 'node:timers/promises';
import type { AgentJobs, JobSummary } from '../starter.js';
import { CONCURRENT_JOBS, isRunning, NoJobsError, readBatch } from './batch.js';
import { EXIT } from './exit.js';
import { type JobEnd, readEnd } from './job-end.js';
import { ProgressLine } from './terminal.js';
import { print, printJson, printToStderr, type Session } from './session.js';
import { countOf, hint, printable } from './text.js';

/** Between two looks at the list: a batch of thousands is several requests. */
const LOOK_MS = 3_000;
/** Elsewhere than on a terminal, a line of progress at most so often. */
const TELL_EVERY_MS = 30_000;
/** A job that has ended answers at once; one that was attached anew meanwhile is waited for by the next look. */
const READ_END_MS = 30_000;

/** So many looks a batch may take to be listed, whose start has just ended. */
const FIRST_LOOKS = 4;

/** The ends that were told, by workflow id: of which run, and how it ended. */
type Ends = Map<string, { closedAt: string | null; label: string; isSuccess: boolean }>;

/**
 * Tells each end as it comes, then how many ended how. The list lags behind the jobs, so that a batch whose last start
 * is some seconds old is complete. A job that a follow-up attaches anew counts as running again.
 */
export async function waitForBatch({ jobs, globals, signal }: Session, batch: string, isJson: boolean): Promise<void> {
  const ends: Ends = new Map();
  const progress = new ProgressLine({ everyMs: TELL_EVERY_MS });
  try {
    for (let looks = 1, idleLooks = 0; idleLooks < 2; looks++) {
      const listed = await look(jobs, batch, signal, { progress, isEarly: looks < FIRST_LOOKS });
      if (listed !== null) {
        const hasEnded = await readEnds(jobs, listed, ends, { signal, isJson, progress });
        idleLooks = hasEnded ? idleLooks + 1 : 0;
        progress.show(`${ends.size} of ${countOf(listed.length, 'job')} ended${needOf(listed)}`);
      }
      if (idleLooks < 2) await delay(LOOK_MS, undefined, { signal }).catch(() => {});
      signal.throwIfAborted();
    }
  } finally {
    progress.clear();
    printToStderr(`agent-jobs: ${summaryOf(ends)}`);
    if (signal.aborted) printToStderr(`agent-jobs: to wait again: ${hint(globals, ['wait', '--batch', batch])}`);
  }
  if ([...ends.values()].some(({ isSuccess }) => !isSuccess)) process.exitCode = EXIT.notAll;
}

/** Null while Temporal is away, for a wait of hours outlives that, and where a new batch is not listed yet. */
async function look(
  jobs: AgentJobs,
  batch: string,
  signal: AbortSignal,
  { progress, isEarly }: { progress: ProgressLine; isEarly: boolean },
): Promise<JobSummary[] | null> {
  try {
    return await readBatch(jobs, batch, signal);
  } catch (error) {
    if (isEarly && error instanceof NoJobsError) return null;
    const { isOutage } = await import('../client/temporal-errors.js');
    if (signal.aborted || !isOutage(error)) throw error;
    progress.show('Temporal does not answer; it is asked again');
    return null;
  }
}

/** Tells the ends that are new; true where every job has ended. */
async function readEnds(
  jobs: AgentJobs,
  listed: JobSummary[],
  ends: Ends,
  { signal, isJson, progress }: { signal: AbortSignal; isJson: boolean; progress: ProgressLine },
): Promise<boolean> {
  const { concurrently } = await import('../client/concurrently.js');
  for (const { workflowId } of listed.filter(isRunning)) ends.delete(workflowId);
  const fresh = listed.filter((job) => !isRunning(job) && ends.get(job.workflowId)?.closedAt !== job.closedAt);
  const read = concurrently(fresh, { limit: CONCURRENT_JOBS, signal }, async ({ workflowId, closedAt }) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(READ_END_MS)]);
    const end = await readEnd(jobs.handle(workflowId), limit).catch((error: Error) => endOf(error));
    return { workflowId, closedAt, end };
  });
  for await (const { workflowId, closedAt, end } of read) {
    if (end === null) continue;
    ends.set(workflowId, { closedAt, label: end.label, isSuccess: end.code === EXIT.ok });
    progress.clear();
    if (isJson) printJson({ workflowId, ...end.json });
    else print([workflowId, end.label, end.prLink ?? ''].map(printable).join('  ').trimEnd());
  }
  return listed.every(({ workflowId }) => ends.has(workflowId));
}

function needOf(listed: JobSummary[]): string {
  const count = listed.filter(({ waitingFor }) => waitingFor === 'person').length;
  if (count === 0) return '';
  return `, ${count === 1 ? '1 needs' : `${count} need`} a person: npx agent-jobs attention`;
}

/** Null where the end can be read later; a job that Temporal has deleted since it was listed has no end to read. */
function endOf({ name, message }: Error): JobEnd | null {
  if (name !== 'JobNotFoundError') return null;
  return { label: 'deleted', code: EXIT.error, json: { code: 'JOB_NOT_FOUND', message }, prLink: null };
}

function summaryOf(ends: Ends): string {
  const counts = new Map<string, number>();
  for (const { label } of ends.values()) counts.set(label, (counts.get(label) ?? 0) + 1);
  const parts = [...counts].map(([label, count]) => `${count} ${label}`);
  return `${countOf(ends.size, 'job')} ended${parts.length === 0 ? '' : `: ${parts.join(', ')}`}`;
}

/** `wait`: how a command waits for the end of a job, or of all jobs of a batch, and tells it to a shell. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { concurrently, firstOf } from '../client/concurrently.js';
import { LIMIT, type Outcome } from '../contract.js';
import { checkText } from '../contract/input-checks.js';
import { OPERATIONS } from '../operations.js';
import type { JobCanceledError, JobHandle, JobSummary } from '../starter.js';
import { isOpen } from '../temporal/open-workflows.js';
import { BadEndError, codeOf, EXIT, exitCodesText, UsageError } from './exit.js';
import { withProgress } from './follow.js';
import { addOperation } from './operation.js';
import { printAnswer, printToStderr, progressPrinter, withSession, type Session } from './session.js';
import { countOf, hint, printable, show } from './show.js';
import { type JobNameFlags, readJobName } from './targets.js';

const EXITS = `
Exit code:
${exitCodesText()}
With --batch: 0 where every job ended as completed or archived, else 13`;

const OUTCOME_EXIT: Partial<Record<string, number>> = {
  completed: EXIT.ok,
  archived: EXIT.ok,
  failed: EXIT.failed,
  timedOut: EXIT.timedOut,
  lost: EXIT.lost,
  abandoned: EXIT.abandoned,
} satisfies Record<Outcome, number>;

/** By the names of the starter's errors. */
const FAILURE_EXIT: Partial<Record<string, number>> = {
  InvalidInputError: EXIT.notCreated,
  CreateRejectedError: EXIT.notCreated,
  UnknownOutcomeError: EXIT.unknownOutcome,
  JobCanceledError: EXIT.canceled,
  JobTerminatedError: EXIT.canceled,
};

const LOOK_MS = 3_000;
/** A look at thousands of jobs is several requests: the server is busy with it for at most this share of the time. */
const SHARE_OF_LOOKS = 0.2;
/** A line of progress at most so often. */
const TELL_EVERY_MS = 30_000;
/** A job that has ended answers at once; one that was attached anew meanwhile is waited for by the next look. */
const READ_END_MS = 30_000;
/** So many looks a batch may take to be listed, whose start has just ended. */
const FIRST_LOOKS = 4;
/** The list lags behind the jobs: a batch is over where so many looks in a row say so. */
const LAST_LOOKS = 2;

/** Adds `wait`. */
export function addWait(program: Command): void {
  const command = addOperation(program, OPERATIONS.wait);
  command
    .option('--batch <label>', 'until every job of this batch has ended')
    .addHelpText('after', EXITS)
    .action(async () => {
      const { json = false, batch, ...flags } = command.opts<WaitFlags>();
      if (batch === undefined) {
        const [name] = readJobName(command.args, flags);
        return withSession(command, (session) => waitAndPrint(session, session.jobs.handle(name), json));
      }
      checkText(batch, 'batch', { maxBytes: LIMIT.batchBytes });
      const isNamed = command.args.length > 0 || (flags.project ?? flags.key) !== undefined;
      if (isNamed) throw new UsageError('give a workflow id or --batch, not both');
      await withSession(command, (session) => waitForBatch(session, batch, json));
    });
}

interface WaitFlags extends JobNameFlags {
  batch?: string;
  json?: boolean;
}

/** Waits for a job's end, tells meanwhile how it goes, prints its result and sets the exit code. */
export async function waitAndPrint(session: Session, job: JobHandle, isJson: boolean): Promise<void> {
  const { signal, globals } = session;
  try {
    const result = await withProgress(session, job, job.result({ signal }));
    printAnswer(isJson, result, () => show({ workflowId: job.workflowId, ...result }));
    const code = OUTCOME_EXIT[result.outcome];
    if (code === undefined) printToStderr('agent-jobs: this release does not know that outcome: it is no success');
    process.exitCode = code ?? EXIT.error;
  } catch (error) {
    if (signal.aborted) printToStderr(`agent-jobs: to wait again: ${hint(globals, ['wait', job.workflowId])}`);
    throw toBadEnd(job, error as Error);
  }
}

/** The job's failure; any other error is the command's own. */
function toBadEnd({ workflowId }: JobHandle, error: Error): Error {
  const exitCode = FAILURE_EXIT[error.name];
  if (exitCode === undefined) return error;
  const message = printable(`the job failed: ${error.message}`);
  return new BadEndError(exitCode, { code: codeOf(error), message, workflowId, ...remainsOf(error) });
}

/** What is left of a job whose newest run ended without a result; nothing of one that was not created. */
function remainsOf(error: Error): Pick<Partial<JobCanceledError>, 'prLink' | 'lastResult'> {
  const { prLink, lastResult } = error as JobCanceledError;
  return lastResult === undefined ? {} : { prLink, lastResult };
}

/** How one job of a batch ended: the outcome, or the failure's code. */
interface JobEnd {
  label: string;
  isSuccess: boolean;
  /** Of the run that ended. */
  endedAt: string | null;
}

/** The ends that were printed, by workflow id. */
type Ends = Map<string, JobEnd>;

/** Prints each end as it comes, then how many ended how. A job that a follow-up attaches anew is running again. */
export async function waitForBatch(session: Session, batch: string, isJson: boolean): Promise<void> {
  const { globals, signal } = session;
  const ends: Ends = new Map();
  try {
    await untilAllEnded(session, batch, ends, isJson);
  } finally {
    const labels = [...ends.values()].map(({ label }) => label);
    const counts = [...new Set(labels)].map((label) => `${labels.filter((one) => one === label).length} ${label}`);
    printToStderr(
      `agent-jobs: ${countOf(ends.size, 'job')} ended${counts.length === 0 ? '' : `: ${counts.join(', ')}`}`,
    );
    if (signal.aborted) printToStderr(`agent-jobs: to wait again: ${hint(globals, ['wait', '--batch', batch])}`);
  }
  if ([...ends.values()].some(({ isSuccess }) => !isSuccess)) process.exitCode = EXIT.notAll;
}

/** Reads the list of a batch again and again, over outages of Temporal; rejects at Ctrl-C. */
async function untilAllEnded(session: Session, batch: string, ends: Ends, isJson: boolean): Promise<void> {
  const { isOutage } = await import('../client/temporal-errors.js');
  const { jobs, signal } = session;
  const showProgress = progressPrinter(TELL_EVERY_MS);
  let looksAtEnd = 0;
  for (let looks = 1; ; looks++) {
    const startedAt = performance.now();
    let tookMs = 0;
    try {
      const listed: JobSummary[] = [];
      for await (const job of jobs.list({ batch }, { signal })) listed.push(job);
      tookMs = performance.now() - startedAt;
      // The label may be mistyped.
      if (listed.length === 0 && looks >= FIRST_LOOKS) throw new Error(`no job has the batch ${JSON.stringify(batch)}`);
      await printNewEnds(session, listed, ends, isJson);
      const haveEnded = listed.length > 0 && listed.every(({ workflowId }) => ends.has(workflowId));
      looksAtEnd = haveEnded ? looksAtEnd + 1 : 0;
      if (looksAtEnd === LAST_LOOKS) return;
      showProgress(`${ends.size} of ${countOf(listed.length, 'job')} ended${needOf(listed)}`);
    } catch (error) {
      signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      showProgress('Temporal does not answer; it is asked again');
    }
    await delay(Math.max(LOOK_MS, tookMs / SHARE_OF_LOOKS), undefined, { signal }).catch(() => {});
    signal.throwIfAborted();
  }
}

async function printNewEnds(
  { jobs, signal }: Session,
  listed: readonly JobSummary[],
  ends: Ends,
  isJson: boolean,
): Promise<void> {
  const isRunning = ({ workflowStatus }: JobSummary) => isOpen(workflowStatus);
  for (const { workflowId } of listed.filter(isRunning)) ends.delete(workflowId);
  const isNew = (job: JobSummary) => !isRunning(job) && ends.get(job.workflowId)?.endedAt !== job.endedAt;
  const reads = concurrently(listed.filter(isNew), { signal }, async ({ workflowId, endedAt }) => {
    // Not `AbortSignal.any`: Node 20 collects a timeout that only such a signal refers to.
    const limit = firstOf([signal, AbortSignal.timeout(READ_END_MS)]);
    const read = await readEnd(jobs.handle(workflowId), limit.signal).finally(limit.release);
    return { workflowId, endedAt, read };
  });
  for await (const { workflowId, endedAt, read } of reads) {
    if (read === null) continue;
    const { label, isSuccess, json, prLink } = read;
    ends.set(workflowId, { label, isSuccess, endedAt });
    printAnswer(isJson, { workflowId, ...json }, () =>
      [workflowId, label, prLink ?? ''].map(printable).join('  ').trimEnd(),
    );
  }
}

/** Null where it can be read later. A failure of the job is an end too, and so is that Temporal has deleted it. */
async function readEnd(job: JobHandle, signal: AbortSignal) {
  try {
    const result = await job.result({ signal });
    const isSuccess = OUTCOME_EXIT[result.outcome] === EXIT.ok;
    return { label: result.outcome, isSuccess, json: result, prLink: result.job?.prLink };
  } catch (error) {
    const { name, message } = error as Error;
    const code = codeOf(error as Error);
    const isGone = name === 'JobNotFoundError';
    if (!isGone && FAILURE_EXIT[name] === undefined) return null;
    const remains = remainsOf(error as Error);
    const json = { code, message, ...remains };
    return { label: isGone ? 'deleted' : code, isSuccess: false, json, prLink: remains.prLink };
  }
}

function needOf(listed: JobSummary[]): string {
  const count = listed.filter(({ waitingFor }) => waitingFor === 'person').length;
  if (count === 0) return '';
  return `, ${count === 1 ? '1 needs' : `${count} need`} a person: npx agent-jobs attention`;
}

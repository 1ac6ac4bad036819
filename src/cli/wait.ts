/** `wait`: waits for the end of a job or a batch, shows meanwhile how it goes, and reports the end to a shell. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { lastingWait, passingWait, waitRemedy } from '../agent-job/shown-text.js';
import { type JobState, LIMIT } from '../contract.js';
import { text } from '../contract/kinds.js';
import { endNamed } from '../contract/words.js';
import { OPERATIONS } from '../operations.js';
import type { JobCanceledError, JobHandle, JobSummary } from '../starter.js';
import { isOpen } from '../temporal/visibility.js';
import { codeOf, CommandError, exitCodesText, exitOfCode, exitOfEnd, UsageError } from './exit.js';
import { addOperation, type JobNameFlags, readJobName } from './operation.js';
import { printAnswer, printToStderr, progressPrinter, withSession } from './session.js';
import type { GlobalOptions, Session } from './session.js';
import { countOf, hint, printable, resolveCommands, show } from './show.js';

const HELP = `
Exit code:
${exitCodesText()}
With --batch: 0 if every job ended as completed or archived, else 13`;

const REFRESH_MS = 3_000;
/** A list of thousands of jobs is several requests: the server is busy with it for at most this share of the time. */
const SHARE_OF_TIME = 0.2;
/** At most one line of progress in this time. */
const BATCH_PROGRESS_MS = 30_000;
/** The first lists may miss a batch that was just started. After four, an empty list means that there is none. */
const FIRST_LISTS = 4;
/** The list lags behind the jobs: a batch is over once two lists in a row say so. */
const LAST_LISTS = 2;

interface WaitFlags extends JobNameFlags {
  batch?: string;
  json?: boolean;
}

/** Adds `wait`. */
export function addWait(program: Command): void {
  const command = addOperation(program, OPERATIONS.wait);
  command
    .option('--batch <label>', 'until every job of this batch has ended')
    .addHelpText('after', HELP)
    .action(async () => {
      const { json = false, batch, ...flags } = command.opts<WaitFlags>();
      if (batch === undefined) {
        const [name] = readJobName(command.args, flags);
        return withSession(command, (session) => waitAndPrint(session, session.jobs.handle(name), json));
      }
      text({ maxBytes: LIMIT.batchBytes }).check(batch, 'batch');
      const isNamed = command.args.length > 0 || (flags.project ?? flags.key) !== undefined;
      if (isNamed) throw new UsageError('give a workflow id or --batch, not both');
      await withSession(command, (session) => waitForBatch(session, batch, json));
    });
}

/** Waits for a job's end with a view of how the job goes, and prints the result; throws if that is no success. */
export async function waitAndPrint(session: Session, job: JobHandle, isJson: boolean): Promise<void> {
  const { signal, globals } = session;
  const { workflowId } = job;
  const result = await withProgress(session, job, job.result({ signal })).catch((error: Error) => {
    if (signal.aborted) printToStderr(`agent-jobs: to wait again: ${hint(globals, ['wait', workflowId])}`);
    throw ofJob(workflowId, error);
  });
  const { outcome } = result;
  printAnswer(isJson, result, () => show({ workflowId, ...result }));
  const exit = exitOfEnd(outcome);
  if (exit === 'ok') return;
  const remedy = endNamed(outcome)?.remedy;
  throw new CommandError(exit, `the job ended as ${printable(outcome)}${remedy ? `: ${remedy}` : ''}`);
}

/** The job's failure as the error of the command; any other error is the command's own. */
function ofJob(workflowId: string, error: Error): Error {
  const code = codeOf(error);
  const exit = exitOfCode(code);
  if (code === undefined || exit === undefined) return error;
  const { prLink } = error as JobCanceledError;
  const details = { code, workflowId, ...(prLink !== undefined && { prLink }) };
  const how = error.name === 'JobCanceledError' ? 'the job was cancelled' : 'the job failed';
  return new CommandError(exit, printable(`${how}: ${error.message}`), details);
}

/** Prints each end as it is listed, then how many jobs ended in each way; throws if one is no success. */
export async function waitForBatch(session: Session, batch: string, isJson: boolean): Promise<void> {
  const { globals, signal } = session;
  /** Those that were printed, by workflow id. */
  const ends = new Map<string, JobSummary>();
  try {
    await untilAllEnded(session, batch, ends, isJson);
  } finally {
    const outcomes = [...ends.values()].map(({ outcome }) => String(outcome));
    const counts = [...new Set(outcomes)].map((one) => `${outcomes.filter((each) => each === one).length} ${one}`);
    const ended = [`${countOf(ends.size, 'job')} ended`, counts.join(', ')].filter(Boolean).join(': ');
    printToStderr(`agent-jobs: ${ended}`);
    if (signal.aborted) printToStderr(`agent-jobs: to wait again: ${hint(globals, ['wait', '--batch', batch])}`);
  }
  const bad = [...ends.values()].filter(({ outcome }) => exitOfEnd(String(outcome)) !== 'ok');
  if (bad.length > 0) throw new CommandError('notAll', `${countOf(bad.length, 'job')} ended without success`);
}

/** Reads the list of a batch again and again, over outages of Temporal; throws at Ctrl-C. */
async function untilAllEnded(
  { jobs, signal }: Session,
  batch: string,
  ends: Map<string, JobSummary>,
  isJson: boolean,
): Promise<void> {
  const { isOutage } = await import('../client/temporal-errors.js');
  const showProgress = progressPrinter(BATCH_PROGRESS_MS);
  let listsAtEnd = 0;
  for (let lists = 1; ; lists++) {
    const startedAt = performance.now();
    try {
      const open: JobSummary[] = [];
      for await (const job of jobs.list({ batch }, { signal })) {
        if (isOpen(job.workflowStatus)) open.push(job);
        else if (ends.get(job.workflowId)?.runId !== job.runId) printEnd(job, ends, isJson);
      }
      // A follow-up has started the job again.
      for (const { workflowId } of open) ends.delete(workflowId);
      const total = ends.size + open.length;
      // A person may have mistyped the label.
      if (total === 0 && lists >= FIRST_LISTS) throw new CommandError('error', `no job has the batch "${batch}"`);
      listsAtEnd = total > 0 && open.length === 0 ? listsAtEnd + 1 : 0;
      if (listsAtEnd === LAST_LISTS) return;
      const waiting = open.filter(({ waitingFor }) => waitingFor === 'person').length;
      const need = waiting > 0 ? `, ${waiting} wait for a person: npx agent-jobs attention` : '';
      showProgress(`${ends.size} of ${countOf(total, 'job')} ended${need}`);
    } catch (error) {
      signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      showProgress('Temporal does not answer; it is asked again');
    }
    const tookMs = performance.now() - startedAt;
    await delay(Math.max(REFRESH_MS, tookMs / SHARE_OF_TIME), undefined, { signal }).catch(() => {});
    signal.throwIfAborted();
  }
}

function printEnd(job: JobSummary, ends: Map<string, JobSummary>, isJson: boolean): void {
  const { workflowId, outcome, prLink } = job;
  ends.set(workflowId, job);
  printAnswer(isJson, job, () => [workflowId, String(outcome), prLink ?? ''].map(printable).join('  ').trimEnd());
}

/** The pause between two reads of a job that has ended, until a follow-up has started it again. */
const REREAD_MS = 1_000;

/** Awaits work that may take long, and shows meanwhile how the job goes. */
export async function withProgress<T>(session: Session, job: JobHandle, work: Promise<T>): Promise<T> {
  const ended = new AbortController();
  const signal = AbortSignal.any([session.signal, ended.signal]);
  // What fails the watch also fails the work, which reports the error.
  const following = follow(session, job, signal).catch(() => {});
  try {
    return await work;
  } finally {
    ended.abort();
    await following;
  }
}

async function follow({ jobs: { client }, globals }: Session, job: JobHandle, signal: AbortSignal): Promise<void> {
  const { watchJob } = await import('../client/agent-job/wait.js');
  const print = (line: string) => {
    if (!signal.aborted) printToStderr(`agent-jobs: ${line}`);
  };
  let trouble = '';
  const warn = (_: string, { error }: { error?: unknown }) => {
    const { message } = error as Error;
    if (message !== trouble) print(`still waiting: ${message}`);
    trouble = message;
  };
  const context = { client, timeoutMs: undefined, logger: { warn } };
  let before: string[] = [];
  while (!signal.aborted) {
    for await (const state of watchJob(context, job.workflowId, { signal })) {
      const lines = linesOf(state, job.workflowId, globals);
      for (const line of lines.filter((one) => !before.includes(one))) print(line);
      before = lines;
    }
    await delay(REREAD_MS, undefined, { signal });
  }
}

/** The lines that show a state; `follow` prints those that are new. */
function linesOf(
  { phase, job, jobId, prLink, waiting, unknown, projectId }: JobState,
  workflowId: string,
  globals: GlobalOptions,
) {
  const progress = [phase, job?.status, jobId && `job ${jobId}`].filter(Boolean).join(', ');
  const what = waiting && lastingWait(waiting);
  const note = waiting && passingWait(waiting);
  const why = waiting?.reason === undefined ? '' : ` (${printable(waiting.reason)})`;
  const commands = show({}, resolveCommands(workflowId, unknown, globals));
  return [
    printable(progress),
    ...(prLink ? [`pull request: ${printable(prLink)}`] : []),
    ...(note ? [printable(note)] : []),
    ...(what ? [`still waiting: the job waits for ${what}; ${waitRemedy(waiting, projectId)}${why}`] : []),
    ...(unknown
      ? [`after a check upstream (from ${unknown.lookAfter} on) one of these resolves it:\n${commands}`]
      : []),
  ];
}

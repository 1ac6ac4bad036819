/** `follow-up` and `cancel`: what a command asks of one job, or of every running job of a batch. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { Attribution, FollowUpState } from '../contract.js';
import { OPERATIONS } from '../operations.js';
import type { FollowUpOptions, JobHandle } from '../starter.js';
import { BadEndError, EXIT, throwNotRetryable } from './exit.js';
import { printWait, withProgress } from './follow.js';
import { readPrompt } from './input.js';
import { addOperation, readArguments } from './operation.js';
import { printAnswer, printToStderr, type Session, withSession } from './session.js';
import { printable, shellWord, show } from './show.js';
import { findJob, forEachRunning, type JobNameFlags, readTarget } from './targets.js';
import { addYesOption, confirm } from './terminal.js';

interface BatchFlags extends JobNameFlags {
  batch?: string;
  json?: boolean;
  yes?: boolean;
}

interface FollowUpFlags extends BatchFlags {
  id?: string;
  promptFile?: string;
  wait?: boolean;
}

/** What to do about one that the upstream did not take, or not yet. */
const REMEDY: Partial<Record<FollowUpState, string>> = {
  queued: 'it waits its turn; the same command with its --id tells its fate and sends nothing twice',
  rejected: 'the upstream refused it; "agent-jobs state" shows why',
  unknown: 'it may have arrived; "agent-jobs attention" lists what a person can do',
  abandoned: 'the job ended first, or its queue was full; the same --id may be sent again',
};

/** Adds `follow-up`. */
export function addFollowUp(program: Command): void {
  const command = addYesOption(addOperation(program, OPERATIONS.followUp));
  command
    .option('--batch <label>', 'to every running job of this batch, all under the same --id')
    .option('--wait', 'wait, for at most a minute, until the upstream took it (exit 0; 10 where it is not sent)')
    .action((first?: string, second?: string) => followUp(command, [first, second], command.opts()));
}

async function followUp(
  command: Command,
  [first, second]: [string | undefined, string | undefined],
  flags: FollowUpFlags,
): Promise<void> {
  // With --batch, --key or --job-id no job precedes the prompt.
  const hasOne = (flags.batch ?? flags.key ?? flags.jobId) === undefined || second !== undefined;
  const target = await readTarget(hasOne ? first : undefined, flags);
  const prompt = await readPrompt(hasOne ? second : first, flags.promptFile);
  const given = readArguments(flags, OPERATIONS.followUp, { prompt }) as FollowUpOptions;
  const options = { id: given.id ?? randomUUID(), priority: given.priority };
  await withSession(command, async (session) => {
    const job = target.batch === null ? await findJob(session, target.job) : null;
    const sent = job
      ? followUpOne(session, job, prompt, { ...flags, ...options })
      : followUpBatch(session, target.batch!, prompt, { ...flags, ...options });
    await sent.catch((error: unknown) => {
      if (flags.id !== undefined) throw error;
      // The id was made here: where the client fails by itself, its error has it.
      const repeat = `repeat the command with --id ${options.id}, which sends nothing twice`;
      if (job && session.signal.aborted) printToStderr(`agent-jobs: the follow-up may be queued: ${repeat}`);
      throwNotRetryable(error);
    });
  });
}

type Sending = Omit<FollowUpFlags, 'priority'> &
  Required<Pick<FollowUpOptions, 'id'>> &
  Pick<FollowUpOptions, 'priority'>;

async function followUpOne(session: Session, job: JobHandle, prompt: string, flags: Sending): Promise<void> {
  const { signal } = session;
  const sent = send(job, prompt, flags, { signal });
  const answer = await (flags.wait ? withProgress(session, job, sent) : sent);
  const { state = 'queued' } = answer;
  printAnswer(flags.json, answer, () => show({ workflowId: job.workflowId, followUp: answer.id, state }));
  if (!flags.wait || state === 'sent') return;
  if (state === 'queued') await printWait(job, signal);
  const next = REMEDY[state] ?? `it is ${printable(state)}, which this release does not know: look at the job`;
  const message = `the follow-up is not sent: ${next}`;
  throw new BadEndError(EXIT.notSent, { code: 'NOT_SENT', message, workflowId: job.workflowId });
}

function send(
  job: JobHandle,
  prompt: string,
  { wait, id, priority }: Sending,
  limits: FollowUpOptions,
): Promise<{ id: string; state?: FollowUpState }> {
  const options = { id, priority, ...limits };
  return wait ? job.sendFollowUp(prompt, options) : job.followUp(prompt, options);
}

/** The same id for all, so that the repeated command sends nothing twice. */
async function followUpBatch(session: Session, batch: string, prompt: string, flags: Sending): Promise<void> {
  const { id, wait, json, yes } = flags;
  const repeated = `repeated with --id ${shellWord(String(id))}, the command sends nothing twice`;
  printToStderr(`agent-jobs: follow-up ${id}: ${repeated}`);
  // Without --wait the interrupted command finishes what is under way: it takes a moment.
  const limits = { signal: wait ? session.signal : undefined, onlyWhileRunning: true };
  const question = (jobs: string) => `Send the follow-up to ${jobs} of batch ${batch}? It can not be taken back.`;
  await forEachRunning(session, { batch, question, json, yes }, async (job) => {
    const { state = 'queued' } = await send(job, prompt, flags, limits);
    return { text: printable(state), json: { id, state }, isDone: !wait || state === 'sent' };
  });
}

/** Adds `cancel`. */
export function addCancel(program: Command): void {
  const command = addYesOption(addOperation(program, OPERATIONS.cancel));
  command
    .option('--batch <label>', 'every running job of this batch')
    .action((given: string | undefined, flags: BatchFlags) => cancelJobs(command, given, flags));
}

async function cancelJobs(command: Command, given: string | undefined, flags: BatchFlags): Promise<void> {
  const { json, yes } = flags;
  const attribution: Attribution = readArguments(flags, OPERATIONS.cancel);
  const target = await readTarget(given, flags);
  await withSession(command, async (session) => {
    const { signal } = session;
    if (target.batch !== null) return cancelBatch(session, target.batch, attribution, flags);
    const job = await findJob(session, target.job);
    const name = printable(job.workflowId);
    await throwIfEnded(session, job.workflowId);
    await confirm(() => `End the workflow ${name}? The remote job goes on.`, { yes, json }, signal);
    await job.cancel({ ...attribution, signal });
    const answer = { workflowId: job.workflowId, ...attribution };
    printAnswer(json, answer, () => `${name} ${OPERATIONS.cancel.report}`);
  });
}

/** Temporal takes a cancel of a closed workflow without a word. A job that is being cancelled has not ended. */
async function throwIfEnded({ jobs, signal }: Session, workflowId: string): Promise<void> {
  const { JobEndedError } = await import('../client/errors.js');
  const { readDescription } = await import('../client/agent-job/run-record.js');
  const { temporalCall } = await import('../client/temporal-call.js');
  const read = () => readDescription(jobs.client, workflowId);
  const { closeTime, status } = await temporalCall(jobs.client, { signal }, read);
  if (closeTime !== undefined) throw new JobEndedError(workflowId, status.name);
}

async function cancelBatch(
  session: Session,
  batch: string,
  attribution: Attribution,
  { json, yes }: BatchFlags,
): Promise<void> {
  const question = (jobs: string) => `End the workflows of ${jobs} of batch ${batch}? The remote jobs go on.`;
  await forEachRunning(session, { batch, question, json, yes }, async (job) => {
    await job.cancel(attribution);
    return { text: 'is asked to end', json: { isAsked: true }, isDone: true };
  });
}

/** `follow-up` and `cancel`: what more than their operations these commands do. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { Attribution, FollowUpState } from '../contract.js';
import { OPERATIONS } from '../operations.js';
import type { FollowUpOptions, JobHandle } from '../starter.js';
import { BadEndError, EXIT, throwNotRetryable } from './exit.js';
import { withProgress } from './follow.js';
import { readPrompt } from './input.js';
import { addOperation, readArguments } from './operation.js';
import { printAnswer, printToStderr, type Session, withSession } from './session.js';
import { printable, show } from './show.js';
import { type JobNameFlags, readJobName } from './targets.js';
import { addYesOption, confirm } from './terminal.js';

interface FollowUpFlags extends JobNameFlags {
  id?: string;
  promptFile?: string;
  wait?: boolean;
  json?: boolean;
}

interface CancelFlags extends JobNameFlags {
  json?: boolean;
  yes?: boolean;
}

/** What to do about one that the upstream did not take, or not yet. */
const REMEDY: Partial<Record<FollowUpState, string>> = {
  queued: 'it is queued, and "agent-jobs state" shows what for; the same command with its --id shows its outcome',
  rejected: 'the upstream refused it; "agent-jobs state" shows why',
  unknown: 'it may have arrived; "agent-jobs attention" lists what a person can do',
  abandoned: 'the job ended first, or its queue was full; the same --id may be sent again',
};

/** Adds `follow-up`. */
export function addFollowUp(program: Command): void {
  const command = addOperation(program, OPERATIONS.followUp);
  command
    .option('--wait', 'wait, for at most a minute, until the upstream took it (exit 0; 10 where it is not sent)')
    .action(() => followUp(command, command.opts()));
}

async function followUp(command: Command, flags: FollowUpFlags): Promise<void> {
  const [name, word] = readJobName(command.args, flags, 1);
  const prompt = await readPrompt(word, flags.promptFile);
  const given = readArguments(flags, OPERATIONS.followUp, { prompt }) as FollowUpOptions;
  const options = { id: given.id ?? randomUUID(), priority: given.priority };
  await withSession(command, async (session) => {
    const { jobs, signal } = session;
    const job = jobs.handle(name);
    const sent = send(job, prompt, flags, { ...options, signal });
    const answer = await (flags.wait ? withProgress(session, job, sent) : sent).catch((error: unknown) => {
      if (flags.id !== undefined) throw error;
      // The id was made here: where the client fails by itself, its error has it.
      const repeat = `repeat the command with --id ${options.id}, which sends nothing twice`;
      if (signal.aborted) printToStderr(`agent-jobs: the follow-up may be queued: ${repeat}`);
      return throwNotRetryable(error);
    });
    const { state = 'queued' } = answer;
    printAnswer(flags.json, answer, () => show({ workflowId: job.workflowId, followUp: answer.id, state }));
    if (!flags.wait || state === 'sent') return;
    const next = REMEDY[state] ?? `it is ${printable(state)}, which this release does not know: look at the job`;
    const message = `the follow-up is not sent: ${next}`;
    throw new BadEndError(EXIT.notSent, { code: 'NOT_SENT', message, workflowId: job.workflowId });
  });
}

function send(
  job: JobHandle,
  prompt: string,
  { wait }: FollowUpFlags,
  options: FollowUpOptions,
): Promise<{ id: string; state?: FollowUpState }> {
  return wait ? job.sendFollowUp(prompt, options) : job.followUp(prompt, options);
}

/** Adds `cancel`. */
export function addCancel(program: Command): void {
  const command = addYesOption(addOperation(program, OPERATIONS.cancel));
  command.action(() => cancelJob(command, command.opts()));
}

async function cancelJob(command: Command, flags: CancelFlags): Promise<void> {
  const attribution: Attribution = readArguments(flags, OPERATIONS.cancel);
  const [name] = readJobName(command.args, flags);
  await withSession(command, async (session) => {
    const { jobs, signal } = session;
    const job = jobs.handle(name);
    const { workflowId } = job;
    await throwIfEnded(session, workflowId);
    await confirm(() => `End the workflow ${printable(workflowId)}? The remote job goes on.`, flags, signal);
    await job.cancel({ ...attribution, signal });
    const report = `${printable(workflowId)} ${OPERATIONS.cancel.report}`;
    printAnswer(flags.json, { workflowId, ...attribution }, () => report);
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

import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { Attribution, FollowUpState, Priority } from '../contract.js';
import type { FollowUpOptions, JobHandle } from '../starter.js';
import { addJobName, findJob, forEachRunning, type JobNameFlags, readJobName, readTarget } from './targets.js';
import { readPrompt } from './input.js';
import {
  addAttributionOptions,
  addPriorityOption,
  readAttribution,
  toPriority,
  type AttributionFlags,
} from './options.js';
import { addYesOption, confirm, type ConfirmFlags } from './terminal.js';
import { BadEndError, EXIT, throwNotRetryable } from './exit.js';
import { print, printAnswer, printJson, printToStderr, withSession, type Session } from './session.js';
import { fields, printable, shellWord } from './table.js';
import { printWait, withProgress } from './follow.js';

interface FollowUpFlags extends JobNameFlags {
  batch?: string;
  id?: string;
  priority?: string;
  promptFile?: string;
  wait?: boolean;
  json?: boolean;
  yes?: boolean;
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
  const command = addJobName(program.command('follow-up'), '; none with --batch, --key or --job-id')
    .description('send a further instruction to a job, also after its end')
    .argument('[prompt]', 'the instruction; without it, or as "-", stdin is read')
    .option('--batch <label>', 'to every running job of this batch, all under the same --id')
    .option('--id <id>', 'sent at most once over the whole life of the job (default: a new one each time)')
    .option('--prompt-file <path>', 'read the prompt from a file')
    .option('--wait', 'wait, for at most a minute, until the upstream took it (exit 0; 10 where it is not sent)')
    .option('--json', 'print JSON');
  addPriorityOption(
    addYesOption(command),
    'who goes first where messages wait for the project’s budget',
    'that of the job',
  ).action((first: string | undefined, second: string | undefined, flags: FollowUpFlags) =>
    followUp(command, [first, second], flags),
  );
}

/** Nobody else knows it; where the client fails by itself, its error tells the id. */
function printIdToRepeat(id: string): void {
  printToStderr(
    `agent-jobs: the follow-up may be queued: repeat the command with --id ${id}, which sends nothing twice`,
  );
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
  const { parseFollowUp } = await import('../agent-job/input.js');
  const priority = toPriority(flags.priority);
  parseFollowUp({ prompt, id: flags.id, priority }); // Wrong values are told before anything is connected.
  const id = flags.id ?? randomUUID();
  await withSession(command, async (session) => {
    if (target.batch !== null) {
      const sent = followUpBatch(session, target.batch, prompt, { ...flags, id, priority });
      return flags.id === undefined ? sent.catch(throwNotRetryable) : sent;
    }
    const { signal } = session;
    const job = await findJob(session, target.job);
    const sent = send(job, prompt, flags, { id, priority, signal });
    const answer = await (flags.wait ? withProgress(session, job, sent) : sent).catch((error: unknown) => {
      if (flags.id === undefined && signal.aborted) printIdToRepeat(id);
      if (flags.id === undefined) throwNotRetryable(error);
      throw error;
    });
    const state = answer.state ?? 'queued';
    const shown = { Workflow: job.workflowId, 'Follow-up': answer.id, State: state };
    printAnswer(flags.json, answer, () => fields(Object.entries(shown)));
    if (!flags.wait || state === 'sent') return;
    if (state === 'queued') await printWait(job, signal);
    const next = REMEDY[state] ?? `it is ${printable(state)}, which this release does not know: look at the job`;
    const message = `the follow-up is not sent: ${next}`;
    throw new BadEndError(EXIT.notSent, { code: 'NOT_SENT', message, workflowId: job.workflowId });
  });
}

function send(
  job: JobHandle,
  prompt: string,
  { wait = false }: FollowUpFlags,
  options: FollowUpOptions,
): Promise<{ id: string; state?: FollowUpState }> {
  return wait ? job.sendFollowUp(prompt, options) : job.followUp(prompt, options);
}

/** The same id for all, so that the repeated command sends nothing twice. */
async function followUpBatch(
  session: Session,
  batch: string,
  prompt: string,
  flags: Omit<FollowUpFlags, 'priority'> & { id: string; priority: Priority | undefined },
): Promise<void> {
  const { id, priority, wait = false, json, yes } = flags;
  printToStderr(`agent-jobs: follow-up ${id}: repeated with --id ${shellWord(id)}, the command sends nothing twice`);
  // Without --wait the interrupted command finishes what is under way: it takes a moment.
  const signal = wait ? session.signal : undefined;
  const question = (jobs: string) => `Send the follow-up to ${jobs} of batch ${batch}? It can not be taken back.`;
  await forEachRunning(session, { batch, question, json, yes }, async (job) => {
    const { state = 'queued' } = await send(job, prompt, { wait }, { id, priority, signal, onlyWhileRunning: true });
    return { text: printable(state), json: { id, state }, isDone: !wait || state === 'sent' };
  });
}

interface SignalFlags extends AttributionFlags, JobNameFlags {
  json?: boolean;
}

interface CancelFlags extends SignalFlags {
  batch?: string;
  yes?: boolean;
}

/** Adds `poll-now` and `cancel`. */
export function addSignals(program: Command): void {
  const pollNow = addJobName(program.command('poll-now').description('read a job from the upstream at once'))
    .option('--json', 'print JSON')
    .action(async (given: string | undefined, { json, ...flags }: SignalFlags) => {
      const name = readJobName({ given, ...flags });
      const attribution = await readAttribution(flags);
      await withSession(pollNow, async (session) => {
        const job = await findJob(session, name);
        await job.pollNow({ ...attribution, signal: session.signal });
        printAnswer(
          json,
          { workflowId: job.workflowId, ...attribution },
          () => `${printable(job.workflowId)} will be read now`,
        );
      });
    });
  addAttributionOptions(pollNow);
  const cancel = addJobName(program.command('cancel').description('end a job’s workflow; the remote job goes on'))
    .option('--batch <label>', 'every running job of this batch')
    .option('--json', 'print JSON, with --batch a line for each')
    .action((given: string | undefined, flags: CancelFlags) => cancelJobs(cancel, given, flags));
  addAttributionOptions(addYesOption(cancel));
}

async function cancelJobs(
  command: Command,
  given: string | undefined,
  { json, yes, ...flags }: CancelFlags,
): Promise<void> {
  const attribution = await readAttribution(flags);
  const target = await readTarget(given, flags);
  await withSession(command, async (session) => {
    const { signal } = session;
    if (target.batch !== null) return cancelBatch(session, target.batch, attribution, { json, yes });
    const job = await findJob(session, target.job);
    await throwIfEnded(session, job.workflowId);
    const question = () => `End the workflow ${printable(job.workflowId)}? The remote job goes on.`;
    await confirm(question, { yes, json }, signal);
    await job.cancel({ ...attribution, signal: session.signal });
    if (json) return printJson({ workflowId: job.workflowId, ...attribution });
    print(
      `${printable(job.workflowId)} is asked to end, unless it has just ended; a write in flight is finished first`,
    );
  });
}

/** Temporal takes a cancel of a closed workflow without a word. A job that is being cancelled has not ended. */
async function throwIfEnded({ jobs, signal }: Session, workflowId: string): Promise<void> {
  const { JobEndedError } = await import('../client/errors.js');
  const { readDescription } = await import('../client/agent-job/run-record.js');
  const { temporalCall } = await import('../client/temporal-call.js');
  const { closeTime, status } = await temporalCall(jobs.client, { signal }, () =>
    readDescription(jobs.client, workflowId),
  );
  if (closeTime !== undefined) throw new JobEndedError(workflowId, status.name);
}

async function cancelBatch(
  session: Session,
  batch: string,
  attribution: Attribution,
  flags: ConfirmFlags,
): Promise<void> {
  const question = (jobs: string) => `End the workflows of ${jobs} of batch ${batch}? The remote jobs go on.`;
  await forEachRunning(session, { batch, question, ...flags }, async (job) => {
    await job.cancel(attribution);
    return { text: 'is asked to end', json: { isAsked: true }, isDone: true };
  });
}

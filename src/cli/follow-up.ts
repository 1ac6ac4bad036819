/** `follow-up`: sends a further instruction, and may wait until the upstream took it. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { FollowUpState } from '../contract.js';
import { asNotRetryable } from '../contract/errors.js';
import { OPERATIONS } from '../operations.js';
import { CommandError } from './exit.js';
import { withProgress } from './wait.js';
import { readPrompt } from './input.js';
import { addOperation, callOf, readArguments, type JobNameFlags, readJobName } from './operation.js';
import { printAnswer, printToStderr, withSession } from './session.js';
import { printable, show } from './show.js';

interface FollowUpFlags extends JobNameFlags {
  id?: string;
  promptFile?: string;
  wait?: boolean;
  json?: boolean;
}

const WAIT_MS = 60_000;

/** What to do about a follow-up that the upstream did not take, or has not taken yet. */
const REMEDY: Partial<Record<FollowUpState, string>> = {
  queued: 'it is queued, and "agent-jobs state" shows what for; the same command with its --id shows its outcome',
  rejected: 'the upstream rejected it; "agent-jobs state" shows why',
  unknown: 'it may have arrived; "agent-jobs attention" lists what a person can do',
  abandoned: 'the job ended first, or its queue was full; the same --id may be sent again',
};

/** Adds `follow-up`. */
export function addFollowUp(program: Command): void {
  const command = addOperation(program, OPERATIONS.followUp);
  command
    .option('--wait', 'wait, for at most a minute, until the upstream took it (exit 0; 10 if it is not sent)')
    .addHelpText('after', "\nExample: agent-jobs follow-up --project acme --key ticket-4711 'Add a test, too' --wait")
    .action(() => followUp(command, command.opts()));
}

async function followUp(command: Command, flags: FollowUpFlags): Promise<void> {
  const [name, word] = readJobName(command.args, flags, 1);
  const prompt = await readPrompt(word, flags.promptFile);
  const given = readArguments(flags, OPERATIONS.followUp, { prompt });
  const id = given.id ?? randomUUID();
  await withSession(command, async (session) => {
    const { jobs, signal } = session;
    const job = jobs.handle(name);
    const call = { ...callOf(session), args: { ...given, prompt, id }, job };
    const sent = flags.wait
      ? withProgress(session, job, OPERATIONS.followUp.run({ ...call, waitMs: WAIT_MS }))
      : OPERATIONS.followUp.run(call);
    const answer = await sent.catch((error: unknown) => {
      if (flags.id !== undefined) throw error;
      // The command made the id. An error of the client names the id; after Ctrl-C this line does.
      const repeat = `repeat the command with --id ${id}, which sends nothing twice`;
      if (signal.aborted) printToStderr(`agent-jobs: the follow-up may be queued: ${repeat}`);
      throw asNotRetryable(error);
    });
    const { workflowId } = job;
    const state: FollowUpState = answer.state;
    const notChecked = 'checked' in answer && !answer.checked && 'no worker has said that the job keeps it';
    printAnswer(flags.json, answer, () => show({ workflowId, followUp: id, state, ...(notChecked && { notChecked }) }));
    if (!flags.wait || state === 'sent') return;
    const next = REMEDY[state] ?? `it is ${printable(state)}, which this release does not know: see the job's state`;
    throw new CommandError('notSent', `the follow-up is not sent: ${next}`, { workflowId });
  });
}

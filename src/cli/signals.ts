import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { FollowUpState } from '../contract.js';
import { addAttributionOptions, readAttribution, type AttributionFlags } from './attribution.js';
import { EXIT } from './exit.js';
import { addPriorityOption, readPrompt, toPriority } from './job-options.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { fields, printable } from './text.js';
import { printWait, withWaitingReasons } from './waiting-reason.js';

interface FollowUpFlags {
  id?: string;
  priority?: string;
  promptFile?: string;
  wait?: boolean;
  json?: boolean;
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
  const command = program
    .command('follow-up')
    .description('send a further instruction to a job, also to one whose workflow has ended')
    .argument('<workflow-id>', 'the job')
    .argument('[prompt]', 'the instruction; without it, or as "-", stdin is read')
    .option('--id <id>', 'sent at most once over the whole life of the job (default: a new one each time)')
    .option('--prompt-file <path>', 'read the prompt from a file')
    .option('--wait', 'wait, for at most a minute, until the upstream took it (exit 0; 10 where it is not sent)')
    .option('--json', 'print JSON');
  addPriorityOption(command, 'who goes first where messages wait for the project’s budget', 'that of the job').action(
    (workflowId: string, prompt: string | undefined, flags: FollowUpFlags) =>
      followUp(command, workflowId, prompt, flags),
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
  workflowId: string,
  argument: string | undefined,
  flags: FollowUpFlags,
): Promise<void> {
  const prompt = await readPrompt(argument, flags.promptFile);
  const { parseFollowUp } = await import('../agent-job/input.js');
  const priority = toPriority(flags.priority);
  parseFollowUp({ prompt, id: flags.id, priority }); // Wrong values are told before anything is connected.
  await withSession(command, async ({ jobs, signal }) => {
    const job = jobs.handle(workflowId);
    const options = { id: flags.id ?? randomUUID(), priority, signal };
    const sent: Promise<{ id: string; state?: FollowUpState }> = flags.wait
      ? job.sendFollowUp(prompt, options)
      : job.followUp(prompt, options);
    const fate = flags.wait ? withWaitingReasons(job, signal, sent) : sent;
    const answer = await fate.catch((error: unknown) => {
      if (flags.id === undefined && signal.aborted) printIdToRepeat(options.id);
      throw error;
    });
    const state = answer.state ?? 'queued';
    if (flags.json) printJson(answer);
    else
      print(
        fields([
          ['Workflow', workflowId],
          ['Follow-up', answer.id],
          ['State', state],
        ]),
      );
    if (!flags.wait || state === 'sent') return;
    process.exitCode = EXIT.notSent;
    const next = REMEDY[state] ?? `it is ${printable(state)}, which this release does not know: look at the job`;
    printToStderr(`agent-jobs: the follow-up is not sent: ${next}`);
    if (state === 'queued') await printWait(job, signal);
  });
}

/** Adds `poll-now` and `cancel`. */
export function addSignals(program: Command): void {
  const pollNow = program
    .command('poll-now')
    .description('read a job from the upstream at once')
    .argument('<workflow-id>', 'the job')
    .action(async (workflowId: string, flags: AttributionFlags) => {
      const attribution = await readAttribution(flags);
      await withSession(pollNow, async ({ jobs, signal }) => {
        await jobs.handle(workflowId).pollNow({ ...attribution, signal });
        print(`${workflowId} will be read now`);
      });
    });
  addAttributionOptions(pollNow);
  const cancel = program
    .command('cancel')
    .description('end a job’s workflow; the remote job goes on, for the upstream can not cancel')
    .argument('<workflow-id>', 'the job')
    .action(async (workflowId: string, flags: AttributionFlags) => {
      const attribution = await readAttribution(flags);
      await withSession(cancel, async ({ jobs, signal }) => {
        await jobs.handle(workflowId).cancel({ ...attribution, signal });
        print(`${workflowId} is asked to end, unless it has ended already; a write in flight is finished first`);
      });
    });
  addAttributionOptions(cancel);
}

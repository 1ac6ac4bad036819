import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { AgentJobs, JobHandle } from '../starter.js';
import { waitAndPrint } from './wait.js';
import { readPrompt } from './input.js';
import { addJobOptions, toJobOptions } from './options.js';
import { print, printJson, printToStderr, serverOf, withSession } from './session.js';
import { fields } from './table.js';
import { hint } from './text.js';
import { throwNotRetryable, UsageError } from './exit.js';

interface StartFlags {
  project?: string;
  from?: string;
  concurrency?: string;
  allowUnknown?: boolean;
  key?: string;
  jobId?: string;
  promptFile?: string;
  wait?: boolean;
  json?: boolean;
}

const FROM_EXITS = `
With --from, each line has one fate: started, joined (it was there), conflict (its key names another job) or refused.
The same file again starts nothing new; where the command is cut off, the same command goes on.
Exit code: 0 all started or joined, 13 not all, 11 Temporal did not answer for 2 minutes, 130 interrupted`;

/** Adds `start`, which starts a job or attaches to one. */
export function addStart(program: Command): void {
  const command = program
    .command('start')
    .description('start a job, or join the one that the same key started')
    .argument('[prompt]', 'the instruction; without it, or as "-", stdin is read')
    .option('--project <id>', 'the upstream project; with --from of the lines that name none')
    .option('--from <file>', 'start the jobs of a file of JSON lines ({"key": …, "prompt": …}), "-" is stdin')
    .option('--concurrency <number>', 'with --from: starts under way at the same moment (default: 20)')
    .option('--allow-unknown', 'with --from: also send fields that this release does not know')
    .option('--key <key>', 'makes a repetition answer with the same job (default: a new one each time)')
    .option('--job-id <id>', 'watch this existing job instead of creating one')
    .option('--prompt-file <path>', 'read the prompt from a file')
    .option('--wait', 'wait for the end; the exit code tells the outcome, as with the command wait')
    .option('--json', 'print JSON');
  command.addHelpText('after', FROM_EXITS);
  addJobOptions(command).action((prompt: string | undefined, flags: StartFlags) => start(command, prompt, flags));
}

async function start(command: Command, argument: string | undefined, flags: StartFlags): Promise<void> {
  if (flags.from !== undefined) return startLines(command, flags.from, argument, flags);
  if (flags.concurrency !== undefined) throw new UsageError('--concurrency goes with --from');
  if (flags.allowUnknown) throw new UsageError('--allow-unknown goes with --from');
  if (flags.jobId !== undefined && (argument ?? flags.promptFile) !== undefined) {
    throw new UsageError('give a prompt or --job-id, not both: a job id watches a job that exists already');
  }
  const prompt = flags.jobId === undefined ? await readPrompt(argument, flags.promptFile) : undefined;
  const { agentJobStartOptions } = await import('../agent-job/start-options.js');
  const key = flags.key ?? (prompt === undefined ? undefined : randomUUID());
  const input = toInput(flags, prompt);
  agentJobStartOptions(input, { key }); // Wrong values are told before anything is connected.
  await withSession(command, async (session) => {
    const { jobs, globals, signal } = session;
    const job = await startOrAttach(jobs, input, key, signal).catch((error: unknown) => {
      if (flags.key !== undefined || key === undefined) throw error;
      printKeyToRepeat(key);
      return throwNotRetryable(error);
    });
    if (flags.json && !flags.wait) printJson({ workflowId: job.workflowId, key: key ?? null });
    if (!flags.json) {
      const next = flags.wait ? null : hint(globals, ['wait', job.workflowId]);
      print(
        fields([
          ['Temporal', serverOf(session)],
          ['Workflow', job.workflowId],
          ['Key', flags.key === undefined ? key : null],
          ['Next', next],
        ]),
      );
    }
    if (flags.wait) await waitAndPrint(session, job, flags.json ?? false);
  });
}

/** Nobody else knows it: without it, the same command again would start a second job. */
function printKeyToRepeat(key: string): void {
  printToStderr(
    `agent-jobs: the job may have been started: repeat the command with --key ${key}, which makes no second one`,
  );
}

/** The options of the command hold for the lines that do not say otherwise. */
async function startLines(
  command: Command,
  file: string,
  argument: string | undefined,
  flags: StartFlags,
): Promise<void> {
  const { key, jobId, promptFile, wait, project: projectId, json: isJson = false } = flags;
  if ([argument, key, jobId, promptFile, wait].some((given) => given !== undefined)) {
    throw new UsageError(
      '--from takes the key, and the prompt or job id, of each job from its line, and does not wait',
    );
  }
  const defaults = { ...toJobOptions(flags), ...(projectId !== undefined && { projectId }) };
  const { parseJobInput } = await import('../agent-job/input.js');
  // Wrong values are told before any line is read.
  parseJobInput({ projectId: 'p', prompt: 'x', ...defaults });
  const { startFrom } = await import('./start-from.js');
  const { concurrency, allowUnknown } = flags;
  await startFrom(command, file, defaults, { isJson, concurrency, allowUnknown });
}

function toInput(flags: StartFlags, prompt: string | undefined) {
  const options = toJobOptions(flags);
  const { project: projectId, jobId } = flags;
  if (projectId === undefined) throw new UsageError('--project must be given');
  return prompt === undefined ? { projectId, jobId: jobId ?? '', ...options } : { projectId, prompt, ...options };
}

function startOrAttach(
  jobs: AgentJobs,
  input: ReturnType<typeof toInput>,
  key: string | undefined,
  signal: AbortSignal,
): Promise<JobHandle> {
  if ('prompt' in input) return jobs.start({ ...input, key: key ?? randomUUID() }, { signal });
  return jobs.attach({ ...input, key }, { signal });
}

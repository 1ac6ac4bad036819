import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import { jsonLine } from '../agent-job/terminal-text.js';
import type { StartItem } from '../client/agent-job/start-many.js';
import type { AgentJobOptions } from '../contract.js';
import { OPERATIONS } from '../operations.js';
import type { AgentJobs, JobHandle, StartFate } from '../starter.js';
import { EXIT, InterruptedError, throwNotRetryable, UsageError } from './exit.js';
import { readFlags } from './flags.js';
import { openSource, readJsonLines, readPrompt } from './input.js';
import { addOperation } from './operation.js';
import { print, printJson, printToStderr, progressPrinter, serverOf, withSession } from './session.js';
import { countOf, hint, printable, show } from './show.js';
import { waitAndPrint } from './wait.js';

interface StartFlags {
  project?: string;
  from?: string;
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
  const command = addOperation(program, OPERATIONS.start, ['usedFollowUpIds']);
  command
    .option(
      '--from <file>',
      'start the jobs of a file of JSON lines ({"key": …, "prompt": …}), "-" is stdin; flags hold for lines without',
    )
    .option('--wait', 'wait for the end; the exit code tells the outcome, as with the command wait')
    .addHelpText('after', FROM_EXITS)
    .action((prompt: string | undefined, flags: StartFlags) => start(command, prompt, flags));
}

async function start(command: Command, argument: string | undefined, flags: StartFlags): Promise<void> {
  if (flags.from !== undefined) return startFrom(command, flags.from, argument, flags);
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
      // Nobody else knows it: without it, the same command again would start a second job.
      const advice = `repeat the command with --key ${key}, which makes no second one`;
      printToStderr(`agent-jobs: the job may have been started: ${advice}`);
      return throwNotRetryable(error);
    });
    if (flags.json && !flags.wait) printJson({ workflowId: job.workflowId, key: key ?? null });
    if (!flags.json) {
      const next = flags.wait ? null : hint(globals, ['wait', job.workflowId]);
      const madeKey = flags.key === undefined ? key : null;
      print(show({ temporal: serverOf(session), workflowId: job.workflowId, key: madeKey, next }));
    }
    if (flags.wait) await waitAndPrint(session, job, flags.json ?? false);
  });
}

function toInput(flags: StartFlags, prompt: string | undefined) {
  const { jobId = '', key: _, ...options } = readOptions(flags);
  const { project: projectId } = flags;
  if (projectId === undefined) throw new UsageError('--project must be given');
  return prompt === undefined ? { projectId, jobId, ...options } : { projectId, prompt, ...options };
}

function readOptions(flags: StartFlags): AgentJobOptions & { key?: string; jobId?: string } {
  return readFlags(flags, OPERATIONS.start.arguments);
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

// `start --from`: starts the jobs of a file, one JSON object a line, and tells what became of each.

const TELL_EVERY_MS = 5_000;

/** What holds for the lines that do not say otherwise. */
type LineDefaults = AgentJobOptions & { projectId?: string | undefined };

/** Starts the jobs of a file, or of stdin for `-`. The command's options hold where a line does not say otherwise. */
async function startFrom(
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
  const defaults = { ...readOptions(flags), ...(projectId !== undefined && { projectId }) };
  const { parseJobInput } = await import('../agent-job/input.js');
  const { startMany } = await import('../client/agent-job/start-many.js');
  // Wrong values are told before any line is read.
  parseJobInput({ projectId: 'p', prompt: 'x', ...defaults });
  const source = await openSource(file);
  // A reader that has seen enough ends the program here: not every line has its fate then.
  process.exitCode = EXIT.error;
  try {
    await withSession(command, async ({ jobs, globals, signal }) => {
      if (!isJson) printToStderr(`agent-jobs: Temporal at ${serverOf({ jobs })}`);
      const items = toItems(source, defaults);
      const counts = { started: 0, joined: 0, conflict: 0, refused: 0 };
      const showProgress = progressPrinter(TELL_EVERY_MS);
      try {
        for await (const fate of startMany(jobs, items, { signal })) {
          counts[fate.fate] += 1;
          await printFate(fate, isJson);
          showProgress(summaryOf(counts));
        }
      } catch (error) {
        printToStderr(`agent-jobs: ${summaryOf(counts)}; these have a fate; the same command goes on with the others`);
        throw signal.aborted ? new InterruptedError('same command') : error;
      }
      if (isJson) printToStderr(`agent-jobs: ${summaryOf(counts)}`);
      else print(summaryOf(counts));
      if (!isJson && defaults.batch != null)
        printToStderr(`Next  ${hint(globals, ['wait', '--batch', defaults.batch])}`);
      process.exitCode = counts.conflict + counts.refused === 0 ? EXIT.ok : EXIT.notAll;
    });
  } finally {
    // What is not read any more would keep the process alive.
    source.destroy();
  }
}

async function* toItems(source: Readable, defaults: LineDefaults): AsyncGenerator<StartItem> {
  for await (const line of readJsonLines(source)) {
    if ('value' in line) yield { index: line.number, request: withDefaults(line.value, defaults) };
    else yield { index: line.number, problem: new Error(line.problem) };
  }
}

/** Null means absent, as everywhere in the contract. */
function withDefaults(request: Record<string, unknown>, defaults: LineDefaults): Record<string, unknown> {
  const given = Object.entries(request).filter(([, value]) => value !== null);
  return { ...defaults, ...Object.fromEntries(given) };
}

/** Prints a fate for a program, or a bad one for a person. It waits for a slow reader, so that memory stays small. */
async function printFate({ index: line, key, workflowId, fate, error }: StartFate, isJson: boolean): Promise<void> {
  const reason = error?.message;
  if (!isJson && reason === undefined) return;
  const text = isJson
    ? jsonLine({ line, key, workflowId, fate, error: reason })
    : `line ${line}  ${fate}  ${printable(key ?? '-')}  ${printable(reason ?? '')}`;
  if (!process.stdout.write(`${text}\n`)) await once(process.stdout, 'drain');
}

function summaryOf(counts: Readonly<Record<StartFate['fate'], number>>): string {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const parts = Object.entries(counts).map(([fate, count]) => `${count} ${fate}`);
  return `${countOf(total, 'line')}: ${parts.join(', ')}`;
}

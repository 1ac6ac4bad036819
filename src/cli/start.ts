/** `start`: starts a job or attaches to one; with `--from` the jobs of a file, one JSON object a line. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Command } from 'commander';
import { JOB_OPTIONS } from '../agent-job/fields.js';
import { jsonLine } from '../agent-job/shown-text.js';
import type { StartItem } from '../client/agent-job/start-many.js';
import type { AgentJobOptions } from '../contract.js';
import { asNotRetryable } from '../contract/errors.js';
import { OPERATIONS } from '../operations.js';
import type { StartOutcome } from '../starter.js';
import { CommandError, UsageError } from './exit.js';
import { type JsonLine, openSource, readJsonLines, readPrompt } from './input.js';
import { addOperation, readArguments } from './operation.js';
import { print, printJson, printToStderr, progressPrinter, serverOf, type Session, withSession } from './session.js';
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

const FROM_HELP = `
Example: agent-jobs start 'Fix the login page' --project acme --key ticket-4711 --wait

With --from, each line has one outcome: started, joined (it was there), conflict (its key names another job) or refused.
The same file again starts nothing new; if the command is cut off, the same command goes on.
Exit code: 0 all started or joined, 13 not all, 11 Temporal did not answer for 2 minutes, 130 interrupted`;

/** Adds `start`, which starts a job or attaches to one. */
export function addStart(program: Command): void {
  const command = addOperation(program, OPERATIONS.start, ['usedFollowUpIds', 'promptHashes']);
  command
    .option(
      '--from <file>',
      'start the jobs of a file of JSON lines ({"key": …, "prompt": …}), "-" is stdin; flags hold for lines without',
    )
    .option('--wait', 'wait for the end; the exit code says the outcome, as with the command wait')
    .addHelpText('after', FROM_HELP)
    .action((prompt: string | undefined, flags: StartFlags) =>
      flags.from === undefined ? startOne(command, prompt, flags) : startMany(command, flags.from, prompt, flags),
    );
}

async function startOne(command: Command, argument: string | undefined, flags: StartFlags): Promise<void> {
  const { project: projectId, jobId, promptFile, wait, json: isJson = false } = flags;
  if (jobId !== undefined && (argument ?? promptFile) !== undefined) {
    throw new UsageError('give a prompt or --job-id, not both: a job id watches a job that exists already');
  }
  const prompt = jobId === undefined ? await readPrompt(argument, promptFile) : undefined;
  const { agentJobStartOptions } = await import('../agent-job/start-options.js');
  const key = flags.key ?? (prompt === undefined ? undefined : randomUUID());
  if (projectId === undefined) throw new UsageError('--project must be given');
  const options = readArguments(flags, { arguments: JOB_OPTIONS });
  const input = { projectId, ...options, ...(prompt === undefined ? { jobId: jobId ?? '' } : { prompt }) };
  agentJobStartOptions(input, { key }); // Wrong values are reported before the command connects.
  await withSession(command, async (session) => {
    const { jobs, globals, signal } = session;
    const starting =
      'prompt' in input ? jobs.start({ ...input, key: key! }, { signal }) : jobs.attach({ ...input, key }, { signal });
    const job = await starting.catch((error: unknown) => {
      if (flags.key !== undefined || key === undefined) throw error;
      // Only this process knows the key: without it, the same command again would start a second job.
      const advice = `repeat the command with --key ${key}, which makes no second one`;
      printToStderr(`agent-jobs: the job may have been started: ${advice}`);
      throw asNotRetryable(error);
    });
    const { workflowId } = job;
    if (isJson && !wait) printJson({ workflowId, key: key ?? null });
    if (!isJson) {
      const next = wait ? null : hint(globals, ['wait', workflowId]);
      const madeKey = flags.key === undefined ? key : null;
      print(show({ temporal: serverOf(session), workflowId, key: madeKey, next }));
    }
    if (wait) await waitAndPrint(session, job, isJson);
  });
}

const PROGRESS_MS = 5_000;

type LineDefaults = AgentJobOptions & { projectId?: string };

async function startMany(
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
  const options = readArguments(flags, { arguments: JOB_OPTIONS });
  const defaults = { ...options, ...(projectId !== undefined && { projectId }) };
  const { parseJobInput } = await import('../agent-job/input.js');
  // Wrong values are reported before any line is read.
  parseJobInput({ projectId: 'p', prompt: 'x', ...defaults });
  const source = await openSource(file);
  try {
    await withSession(command, (session) => startLines(session, readJsonLines(source), defaults, isJson));
  } finally {
    // A source that is not read to its end would keep the process alive.
    source.destroy();
  }
}

async function startLines(
  session: Session,
  lines: AsyncIterable<JsonLine>,
  defaults: LineDefaults,
  isJson: boolean,
): Promise<void> {
  const { jobs, globals, signal } = session;
  const { startMany: start } = await import('../client/agent-job/start-many.js');
  if (!isJson) printToStderr(`agent-jobs: Temporal at ${serverOf(session)}`);
  const counts = { started: 0, joined: 0, conflict: 0, refused: 0 };
  const showProgress = progressPrinter(PROGRESS_MS, performance.now());
  try {
    for await (const fate of start(jobs, toItems(lines, defaults), { signal })) {
      counts[fate.fate] += 1;
      await printOutcome(fate, isJson);
      showProgress(summaryOf(counts));
    }
  } catch (error) {
    printToStderr(`agent-jobs: ${summaryOf(counts)}; these are done; the same command goes on with the others`);
    throw signal.aborted ? new CommandError('interrupted', 'interrupted; the same command goes on') : error;
  }
  if (isJson) printToStderr(`agent-jobs: ${summaryOf(counts)}`);
  else print(summaryOf(counts));
  const { batch } = defaults;
  if (!isJson && batch != null) printToStderr(`Next  ${hint(globals, ['wait', '--batch', batch])}`);
  const bad = counts.conflict + counts.refused;
  if (bad > 0) throw new CommandError('notAll', `${countOf(bad, 'line')} started or joined no job`);
}

async function* toItems(lines: AsyncIterable<JsonLine>, defaults: LineDefaults): AsyncGenerator<StartItem> {
  for await (const line of lines) {
    const { number: index } = line;
    if ('problem' in line) yield { index, problem: new Error(line.problem) };
    else {
      // Null means absent, as everywhere in the contract.
      const given = Object.entries(line.value).filter(([, value]) => value !== null);
      yield { index, request: { ...defaults, ...Object.fromEntries(given) } };
    }
  }
}

/** Prints any outcome for a program, a bad one for a person. Waits for a slow reader, so that memory stays small. */
async function printOutcome(
  { index: line, key, workflowId, fate, error }: StartOutcome,
  isJson: boolean,
): Promise<void> {
  const reason = error?.message;
  if (!isJson && reason === undefined) return;
  const text = isJson
    ? jsonLine({ line, key, workflowId, fate, error: reason })
    : `line ${line}  ${fate}  ${printable(key ?? '-')}  ${printable(reason ?? '')}`;
  if (!process.stdout.write(`${text}\n`)) await once(process.stdout, 'drain');
}

function summaryOf(counts: Readonly<Record<StartOutcome['fate'], number>>): string {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const parts = Object.entries(counts).map(([fate, count]) => `${count} ${fate}`);
  return `${countOf(total, 'line')}: ${parts.join(', ')}`;
}

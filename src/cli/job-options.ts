import { readFile } from 'node:fs/promises';
import { Option, type Command } from 'commander';
import type { AgentJobOptions, JobMetadata, Priority, UnknownOutcomePolicy } from '../contract.js';
import { UsageError } from './exit.js';

/** The flags of `addJobOptions`, as typed. */
export interface JobFlags {
  priority?: string;
  batch?: string;
  tag?: string[];
  meta?: string[];
  deadline?: string;
  startWithin?: string;
  pollMin?: string;
  pollMax?: string;
  pollRatio?: string;
  onUnknownOutcome?: UnknownOutcomePolicy;
  decideWithin?: string;
  settle?: string;
  linger?: string;
}

/** Adds the options of a job to a command; a duration is a text such as "30 seconds", or milliseconds. */
export function addJobOptions(command: Command): Command {
  return addPriorityOption(command, 'who goes first where creates wait for the project’s budget')
    .option('--batch <label>', 'a label to find jobs by that were started together')
    .option('--tag <label>', 'a label to filter by; may be repeated', collect)
    .option('--meta <name=text>', 'the caller’s own, told back by state, result and logs; may be repeated', collect)
    .option('--deadline <duration>', 'give up watching after this long (default: 24 hours)')
    .option('--start-within <duration>', 'give up where the create waits longer for its first turn (default: for ever)')
    .option('--poll-min <duration>', 'shortest wait between two reads (default: 2 seconds)')
    .option('--poll-max <duration>', 'longest wait between two reads (default: 60 seconds)')
    .option('--poll-ratio <number>', 'wait as a share of the time since the last change (default: 0.1)')
    .addOption(
      new Option('--on-unknown-outcome <policy>', 'when a write may or may not have arrived (default: ask)').choices([
        'ask',
        'fail',
        'retry',
      ]),
    )
    .option('--decide-within <duration>', 'how long to wait for a person then (default: for ever)')
    .option('--settle <duration>', 'read an end again that comes this soon after a follow-up (default: 5 seconds)')
    .option('--linger <duration>', 'stay open for follow-ups this long after the end (default: 0)');
}

/** Gathers an option that may be repeated. */
export function collect(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text];
}

function toMetadata(pairs: readonly string[]): JobMetadata {
  const entries = pairs.map((pair): [name: string, text: string] => {
    const end = pair.indexOf('=');
    if (end < 1) throw new UsageError('--meta must be a name and a text, such as --meta correlationId=4711');
    return [pair.slice(0, end), pair.slice(end + 1)];
  });
  const names = entries.map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new UsageError(`--meta ${twice} is given twice`);
  return Object.fromEntries(entries);
}

/** Adds `--priority`. */
export function addPriorityOption(command: Command, effect: string, unless = '3'): Command {
  return command.option('--priority <number>', `${effect}: 1 to 5, 1 first (default: ${unless})`);
}

/** A priority from a command line; its value is checked with the whole input. */
export function toPriority(text: string | undefined): Priority | undefined {
  return text === undefined ? undefined : (toNumber(text, '--priority') as Priority);
}

/** The options of the contract from a command's flags; their values are checked with the whole input. */
export function toJobOptions(flags: JobFlags): AgentJobOptions {
  const { batch, deadline, startWithin, onUnknownOutcome, decideWithin, settle, linger, pollMin, pollMax, pollRatio } =
    flags;
  const ratio = pollRatio === undefined ? null : toNumber(pollRatio, '--poll-ratio');
  const polling = { min: pollMin ?? null, max: pollMax ?? null, ratio };
  const isPolling = Object.values(polling).some((value) => value !== null);
  const options = {
    priority: toPriority(flags.priority),
    batch,
    tags: flags.tag,
    metadata: flags.meta === undefined ? undefined : toMetadata(flags.meta),
    deadline,
    startWithin,
    onUnknownOutcome,
    decideWithin,
    settle,
    linger,
    polling: isPolling ? polling : undefined,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function toNumber(text: string, flag: string): number {
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number)) throw new UsageError(`${flag} must be a number`);
  return number;
}

/** The prompt from the argument, else from the file, else (or for `-`) from stdin, without one newline at its end. */
export async function readPrompt(argument: string | undefined, file: string | undefined): Promise<string> {
  if (argument !== undefined && argument !== '-' && file !== undefined) {
    throw new UsageError('give the prompt as an argument or as --prompt-file, not both');
  }
  if (argument !== undefined && argument !== '-') return argument;
  if (file === undefined && argument === undefined && process.stdin.isTTY) {
    throw new UsageError('no prompt: give it as an argument, with --prompt-file, or on stdin');
  }
  return withoutLastNewline(await readText(file ?? '-', '--prompt-file'));
}

/** A file's text, or stdin's for `-`. */
export async function readText(file: string, flag: string): Promise<string> {
  const bytes = file === '-' ? await readStdin() : await readNamed(file, flag);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${file === '-' ? 'stdin' : file} is not UTF-8 text`);
  }
}

async function readNamed(file: string, flag: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`${flag}: ${(error as Error).message}`);
  }
}

async function readStdin(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function withoutLastNewline(text: string): string {
  return text.replace(/\r?\n$/, '');
}

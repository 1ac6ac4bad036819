/**
 * How a command ends: its exit code, the one error of commands, and what stderr shows of an error. The codes for ends
 * of jobs are in contract/words.ts.
 */
import { CommanderError, type Command } from 'commander';
import { jsonLine } from '../agent-job/shown-text.js';
import { WORDS } from '../contract/words.js';
import { printableLines } from './show.js';

/** Ends of a command that are no end of a job, with their exit codes and meanings. */
const OWN = {
  error: [1, 'any other error: no such job, it has ended, declined'],
  usage: [2, 'a wrong command or value; the usage was shown'],
  notSent: [10, 'follow-up --wait: not sent'],
  unavailable: [11, 'Temporal did not answer; the same command may work later'],
  noWorker: [12, 'no worker answered in time'],
  notAll: [13, 'of many jobs not all'],
  interrupted: [130, 'interrupted by Ctrl-C; what was started goes on'],
} as const;

type Exit = keyof typeof OWN | (typeof WORDS.ends)[number]['exit'][0];

/** The exit codes with their meanings, by the ends of a command; docs/commands.md has the same table. */
export const EXITS = Object.fromEntries(
  [...WORDS.ends.map(({ exit: [name, code] }) => [name, [code, meaningOf(name)]]), ...Object.entries(OWN)].toSorted(
    ([, [one]], [, [other]]) => Number(one) - Number(other),
  ),
) as Readonly<Record<Exit, readonly [code: number, meaning: string]>>;

function meaningOf(name: Exit): string {
  const ends = WORDS.ends.filter(({ exit }) => exit[0] === name);
  const words = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(ends.map(({ word }) => word));
  return ends.every(({ job }) => job === 'no') ? `${words}: there is surely no job` : words;
}

/** How a command ends that waited for a job which ended so; a word of another release is an error. */
export function exitOfEnd(end: string): Exit {
  return WORDS.ends.find(({ word }) => word === end)?.exit[0] ?? 'error';
}

/** How it ends by an error that stands for an end without a result; undefined for any other error. */
export function exitOfCode(code: string | undefined): Exit | undefined {
  return WORDS.ends.find(({ error }) => error === code)?.exit[0];
}

/** Each exit code on a line, as help shows them. */
export function exitCodesText(): string {
  return Object.values(EXITS)
    .map(([code, meaning]) => `${String(code).padStart(5)}  ${meaning}`)
    .join('\n');
}

/** The last line of stderr if a command with `--json` exits other than 0. */
interface ErrorLine {
  /** The code of the client's error, or of the end, such as `USAGE`, `NOT_ALL` or `ERROR`. */
  code: string;
  message: string;
  /** Whether the very same command may work later, and does no harm when it is called again. */
  retryable: boolean;
  exitCode: number;
}

/** The error that a command throws to end other than well; `details` go into the line of JSON. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError';
  readonly exit: Exit;
  readonly details: Partial<ErrorLine> & { workflowId?: string | null };

  constructor(exit: Exit, message: string, details: CommandError['details'] = {}) {
    super(message);
    this.exit = exit;
    this.details = details;
  }
}

/** A wrong value: the usage of the command is shown. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError';

  constructor(message: string) {
    super('usage', message);
  }
}

/** Prints the error of the command that was called, and answers with the exit code. */
export function printError(called: Command, error: Error): number {
  // Commander has printed it already; help and version end with 0.
  if (error instanceof CommanderError) return EXITS[error.exitCode === 0 ? 'ok' : 'usage'][0];
  const line = lineOf(error);
  process.stderr.write(isJsonAsked() ? `${jsonLine(line)}\n` : textOf(called, line));
  return line.exitCode;
}

/** What stderr shows of a wrong command or option. */
export function usageErrorText(command: Command, message: string): string {
  const line = lineOf(new UsageError(message));
  return isJsonAsked() ? `${jsonLine(line)}\n` : textOf(command, line);
}

/** The words themselves are searched: a wrong command has no parsed options. */
function isJsonAsked(): boolean {
  const [, , ...words] = process.argv;
  const end = words.indexOf('--');
  return words.slice(0, end === -1 ? undefined : end).includes('--json');
}

function textOf(command: Command, { message, exitCode }: ErrorLine): string {
  const usage = `Usage: ${command.createHelp().commandUsage(command)}\n(${nameOf(command)} --help lists the options)\n`;
  return `agent-jobs: ${printableLines(message)}\n${exitCode === EXITS.usage[0] ? usage : ''}`;
}

function lineOf(error: Error): ErrorLine {
  const { message, retryable = false, workflowId } = error as Error & { retryable?: boolean; workflowId?: string };
  const exit = exitOf(error);
  return {
    code: codeOf(error) ?? (exit === 'usage' ? 'USAGE' : 'ERROR'),
    message,
    retryable,
    exitCode: EXITS[exit][0],
    ...(workflowId !== undefined && { workflowId }),
    ...(error instanceof CommandError && error.details),
  };
}

/** The code of an error of the client or of a command. */
export function codeOf(error: Error): string | undefined {
  if (error instanceof CommandError) return error.exit.replace(/[A-Z]/g, '_$&').toUpperCase();
  const { code = '' } = error as Error & { code?: string };
  return /^[A-Z_]+$/.test(code) && 'retryable' in error ? code : undefined;
}

/** By the names of the client's errors, whose classes are loaded only when a command needs them. */
const EXIT_OF_ERROR: Readonly<Record<string, Exit>> = {
  TemporalUnavailableError: 'unavailable',
  NoWorkerError: 'noWorker',
};

/** How an error ends the command: by its own name, or by that of the first cause with an entry. */
function exitOf(error: Error): Exit {
  if (error instanceof CommandError) return error.exit;
  if (error.name === 'InvalidInputError') return 'usage';
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const exit = EXIT_OF_ERROR[cause.name];
    if (exit !== undefined) return exit;
  }
  return 'error';
}

function nameOf(command: Command): string {
  return command.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name();
}

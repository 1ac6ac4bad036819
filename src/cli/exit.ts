import { CommanderError, type Command } from 'commander';
import { jsonLine } from '../agent-job/terminal-text.js';
import { printableLines } from './show.js';

/**
 * What a command answers to a shell, and what that means; docs/commands.md has the same table. Which one the end of a
 * job has is decided in wait.ts.
 */
const CODES = {
  ok: [0, 'completed or archived'],
  error: [1, 'any other error: no such job, it has ended, refused'],
  usage: [2, 'a wrong command or value; the usage was shown'],
  failed: [3, 'failed'],
  timedOut: [4, 'timedOut'],
  lost: [5, 'lost'],
  abandoned: [6, 'abandoned'],
  notCreated: [7, 'InvalidInput or CreateRejected: there is surely no job'],
  unknownOutcome: [8, 'UnknownOutcome'],
  canceled: [9, 'cancelled or terminated'],
  notSent: [10, 'follow-up --wait: not sent'],
  unavailable: [11, 'Temporal did not answer; the same command may work later'],
  noWorker: [12, 'no worker answered in time'],
  notAll: [13, 'of many jobs not all'],
  interrupted: [130, 'interrupted by Ctrl-C; the job goes on'],
} as const;

type Codes = typeof CODES;

/** The exit codes, by what they stand for. */
export const EXIT = Object.fromEntries(Object.entries(CODES).map(([name, [code]]) => [name, code])) as {
  readonly [Name in keyof Codes]: Codes[Name][0];
};

/** Each exit code on a line, as help shows them. */
export function exitCodesText(): string {
  return Object.values(CODES)
    .map(([code, meaning]) => `${String(code).padStart(5)}  ${meaning}`)
    .join('\n');
}

/** The code and the meaning of an exit that its own output explains. */
function meaningOf(exitCode: number): { code: string; message: string } {
  if (exitCode === EXIT.unavailable) return { code: 'TEMPORAL_UNAVAILABLE', message: 'Temporal did not answer' };
  const [name, [, message]] = Object.entries(CODES).find(([, [code]]) => code === exitCode) ?? ['error', CODES.error];
  if (name === 'error') return { code: 'ERROR', message: 'not all is well: the output tells what' };
  return { code: name.replace(/[A-Z]/g, '_$&').toUpperCase(), message };
}

/**
 * A bad end that has an exit code of its own, such as that of the job that was waited for. The details go into the line
 * of JSON.
 */
export class BadEndError extends Error {
  override readonly name = 'BadEndError';
  readonly exitCode: number;
  readonly code: string;
  readonly details: object;
  readonly retryable = false;

  constructor(exitCode: number, { code, message, ...details }: { code: string; message: string; workflowId: string }) {
    super(message);
    this.exitCode = exitCode;
    this.code = code;
    this.details = details;
  }
}

/** The code of an error of the client, else that of a command. */
export function codeOf(error: Error): string {
  const { code = '' } = error as Error & { code?: string };
  if (/^[A-Z_]+$/.test(code) && 'retryable' in error) return code;
  if (error instanceof InterruptedError) return 'INTERRUPTED';
  return error instanceof UsageError ? 'USAGE' : 'ERROR';
}

/** A wrong value: the command's usage is shown and the exit code is `EXIT.usage`. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/**
 * Marks an error of the client as one after which the same command does harm: it would make up another id, or settle
 * another write. Throws it on.
 */
export function throwNotRetryable(error: unknown): never {
  if (error instanceof Error && 'retryable' in error) Object.assign(error, { retryable: false });
  throw error;
}

/** Ctrl-C: the exit code is `EXIT.interrupted`. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  constructor(what: 'job' | 'export' | 'same command') {
    super(`interrupted; the ${what} goes on`);
  }
}

/** By the names of the client's errors, whose classes are loaded only when a command needs them. */
const CAUSE_EXIT: Record<string, number> = {
  TemporalUnavailableError: EXIT.unavailable,
  NoWorkerError: EXIT.noWorker,
};

/** The last line of stderr where a command with `--json` exits other than 0. */
interface ErrorLine {
  /** Of the client's errors; else that of the exit code, such as `USAGE`, `NOT_ALL` or `ERROR`. */
  code: string;
  message: string;
  /** Whether the same command may work later, and does no harm when it is called again as it was. */
  retryable: boolean;
  exitCode: number;
  workflowId?: string;
}

/** Prints the error of the command that was called, and answers with the exit code. */
export function tellError(called: Command, error: Error): number {
  // Commander has printed it already; help and version end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  const exitCode = exitCodeOf(error);
  const usage = exitCode === EXIT.usage ? usageOf(called) : '';
  const text = `agent-jobs: ${printableLines(error.message)}\n${usage}`;
  process.stderr.write(isJsonAsked() ? jsonText(lineOf(error, exitCode)) : text);
  return exitCode;
}

/** Tells a bad end that a command has explained by its output alone: with `--json` it has the same object. */
export function tellBadEnd(exitCode: number): void {
  if (exitCode === EXIT.ok || !isJsonAsked()) return;
  process.stderr.write(jsonText({ ...meaningOf(exitCode), retryable: exitCode === EXIT.unavailable, exitCode }));
}

/** What a wrong command or option is told as. */
export function usageErrorText(command: Command, message: string): string {
  if (isJsonAsked()) return jsonText({ code: 'USAGE', message, retryable: false, exitCode: EXIT.usage });
  return `agent-jobs: ${printableLines(message)}\n${usageOf(command)}`;
}

/** A wrong command has no options that could be asked. */
function isJsonAsked(): boolean {
  const [, , ...words] = process.argv;
  const end = words.indexOf('--');
  return words.slice(0, end === -1 ? undefined : end).includes('--json');
}

function jsonText(line: ErrorLine): string {
  return `${jsonLine(line)}\n`;
}

function lineOf(error: Error, exitCode: number): ErrorLine {
  const { retryable = false, workflowId } = error as Error & Partial<ErrorLine>;
  return {
    code: codeOf(error),
    message: error.message,
    retryable,
    exitCode,
    ...(workflowId !== undefined && { workflowId }),
    ...(error instanceof BadEndError && error.details),
  };
}

function exitCodeOf(error: Error): number {
  if (error instanceof BadEndError) return error.exitCode;
  if (error instanceof InterruptedError) return EXIT.interrupted;
  if (error instanceof UsageError || error.name === 'InvalidInputError') return EXIT.usage;
  return exitCodeOfCause(error);
}

/** Of the error or what it was caused by, whichever says more. */
function exitCodeOfCause(error: Error): number {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const code = CAUSE_EXIT[cause.name];
    if (code !== undefined) return code;
  }
  return EXIT.error;
}

function usageOf(command: Command): string {
  return `Usage: ${command.createHelp().commandUsage(command)}\n(${nameOf(command)} --help lists the options)\n`;
}

function nameOf(command: Command): string {
  return command.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name();
}

/** How a command that fails tells it: as text, or with `--json` as one object; and with which exit code. */
import { CommanderError, type Command } from 'commander';
import { BadEndError, codeOf, EXIT, InterruptedError, meaningOf, UsageError } from './exit.js';
import { jsonLine } from '../agent-job/terminal-text.js';
import { printableLines, withKeysHint } from './text.js';

/** By the names of the client's errors, whose classes are loaded only when a command needs them. */
const CAUSE_EXIT: Record<string, number> = {
  TemporalUnavailableError: EXIT.unavailable,
  NoWorkerError: EXIT.noWorker,
  WorkerBusyError: EXIT.noWorker,
  WorkflowTaskFailingError: EXIT.noWorker,
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
  const text = `agent-jobs: ${printableLines(withKeysHint(error.message))}\n${usage}`;
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
    message: withKeysHint(error.message),
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

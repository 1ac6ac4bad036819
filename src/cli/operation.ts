/** How a row of the table of operations becomes a command: its words and flags, and the plain way to run it. */
import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import { LIMIT } from '../contract.js';
import { cutToBytes } from '../contract/shared.js';
import type { JobOperation, Operation, OperationCall } from '../operations.js';
import type { JobName } from '../client/settings.js';
import { type Arguments, checkGiven, type Given, type Written } from '../operations/arguments.js';
import { UsageError } from './exit.js';
import { addFlags, helpOf, readFlags } from './options.js';
import { addYesOption, confirm } from './input.js';
import { printAnswer, type Session, withSession } from './session.js';
import { printable, show } from './show.js';

/** A worker may be behind a burst of starts. */
const COMMAND_LIMIT_MS = 30_000;
const OF_PROJECT = 'the upstream project';

/** Adds a command with all that the table says of it, but for the arguments that it `lacks`. */
export function addOperation(
  program: Command,
  { command: name, summary, of, positional = [], arguments: all }: Operation,
  lacks: readonly string[] = [],
): Command {
  const command = program.command(name).description(helpOf(summary));
  if (of === 'project') command.option('--project <id>', OF_PROJECT);
  else addJobName(command);
  for (const word of positional) {
    const isPrompt = word === 'prompt';
    const help = helpOf(String(all[word]!.schema()['description']));
    command.argument(`[${word}]`, isPrompt ? `${help}; without it, or as "-", stdin is read` : help);
    if (isPrompt) command.option('--prompt-file <path>', 'read the prompt from a file');
  }
  return addFlags(command, without(all, [...positional, ...lacks])).option('--json', 'print JSON');
}

function without(fields: Arguments, names: readonly string[]): Arguments {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));
}

/**
 * The arguments of a command that was called: those of its flags, and those that are given by position. Checks each
 * before anything is connected; throws a UsageError or InvalidInputError.
 */
export function readArguments<Fields extends Arguments>(
  typed: object,
  { arguments: all, positional = [] }: { readonly arguments: Fields; readonly positional?: readonly string[] },
  given: Written = {},
): Partial<Given<Fields>> {
  const byDefault = 'by' in all ? { by: userAtHost() } : {};
  const args: Written = { ...byDefault, ...readFlags(typed, without(all, positional)), ...given };
  checkGiven(all, args);
  return args;
}

/** Adds a command that does nothing but call its operation on a job, and shows the answer. */
export function addPlainOperation(program: Command, operation: JobOperation): void {
  const { question, report } = operation;
  const command = addOperation(program, operation);
  if (question) addYesOption(command);
  command.action(async () => {
    const { json, yes, ...typed } = command.opts<JobNameFlags & { json?: boolean; yes?: boolean }>();
    const [name] = readJobName(command.args, typed);
    const args = readArguments(typed, operation);
    await withSession(command, async (session) => {
      const job = session.jobs.handle(name);
      const { workflowId } = job;
      if (question) await confirm(`${printable(workflowId)}: ${question}`, { yes, json }, session.signal);
      const answer = { workflowId, ...args, ...(await operation.run({ ...callOf(session), args: { ...args }, job })) };
      printAnswer(json, answer, () => (report ? `${printable(workflowId)} ${report}` : show(answer)));
    });
  });
}

/** What a command's call of an operation has in any case; Ctrl-C ends it. */
export function callOf({ jobs, signal: gone }: Session): Omit<OperationCall, 'args'> {
  return { jobs, waitMs: 0, limitMs: COMMAND_LIMIT_MS, keyName: null, gone, ending: new AbortController().signal };
}

/** The flags that name a job. */
export interface JobNameFlags {
  project?: string;
  key?: string;
}

function addJobName(command: Command): Command {
  return command
    .argument('[job]', 'its workflow id; none with --project and --key')
    .option('--project <id>', 'with --key: the project of the job')
    .option('--key <key>', 'with --project: the key that the job was started under');
}

/** The job that a command names, and at most `others` words that are left of its arguments. Throws a UsageError. */
export function readJobName(
  words: readonly string[],
  { project: projectId, key }: JobNameFlags,
  others = 0,
): [name: JobName, ...rest: string[]] {
  if (projectId === undefined && key === undefined) {
    const [workflowId, ...rest] = words;
    if (workflowId === undefined) throw new UsageError('name a job by its workflow id, or by --project and --key');
    return [workflowId, ...rest];
  }
  if (projectId === undefined || key === undefined) throw new UsageError('--project and --key name a job together');
  if (words.length > others) throw new UsageError('give a workflow id, or --project and --key, not both');
  return [{ projectId, key }, ...words];
}

/** The user and the host as the system knows them, in the form of `by`. */
export function userAtHost(readUser: () => { username: string } = userInfo): string {
  const name = `${userName(readUser)}@${hostname()}`.replace(/\p{Cc}+/gu, ' ');
  return cutToBytes(name, LIMIT.decisionByBytes);
}

/** A container may run under a user id that has no name. */
function userName(readUser: () => { username: string }): string {
  try {
    return readUser().username;
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}`;
  }
}

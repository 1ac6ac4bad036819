/** How a row of the table of operations becomes a command: its words and flags, and the plain way to run it. */
import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import { LIMIT } from '../contract.js';
import { cutToBytes } from '../contract/shared.js';
import type { Operation } from '../operations.js';
import type { JobName } from '../client/settings.js';
import type { Arguments } from '../operations/arguments.js';
import { UsageError } from './exit.js';
import { addFlags, helpOf, readFlags } from './options.js';
import { addYesOption, confirm } from './input.js';
import { printAnswer, withSession } from './session.js';
import { printable, show } from './show.js';

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
export function readArguments(
  typed: object,
  { arguments: all, positional = [] }: Operation,
  given: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  const args = { ...readFlags(typed, without(all, positional)), ...given };
  for (const [name, value] of Object.entries(args)) all[name]?.check(value, name);
  return 'by' in all ? { by: userAtHost(), ...args } : args;
}

/** Adds a command that does nothing but call its operation, and shows the answer. */
export function addPlainOperation(program: Command, operation: Operation): void {
  const { of, question, report } = operation;
  const command = addOperation(program, operation);
  if (question) addYesOption(command);
  command.action(async () => {
    const { json, yes, ...typed } = command.opts<JobNameFlags & { json?: boolean; yes?: boolean }>();
    const [name] = of === 'job' ? readJobName(command.args, typed) : [null];
    const args = readArguments(typed, operation);
    await withSession(command, async ({ jobs, signal }) => {
      const job = name === null ? null : jobs.handle(name);
      if (question) await confirm(`${printable(job?.workflowId ?? '')}: ${question}`, { yes, json }, signal);
      const call = { jobs, args, waitMs: 0, keyName: null, gone: signal, ending: new AbortController().signal };
      const body = await operation.run({ ...call, projectId: typed.project ?? null, job: () => job! });
      const answer = { ...(job && { workflowId: job.workflowId }), ...args, ...body };
      printAnswer(json, answer, () => (job && report ? `${printable(job.workflowId)} ${report}` : show(answer)));
    });
  });
}

/** The flags that name a job. */
export interface JobNameFlags {
  project?: string;
  key?: string;
}

/** Adds the argument and the flags that name a job. */
function addJobName(command: Command): Command {
  return command
    .argument('[job]', 'its workflow id; none with --project and --key')
    .option('--project <id>', 'with --key: the project of the job')
    .option('--key <key>', 'with --project: the key that the job was started under');
}

/**
 * The job that a command names, and the words that are left of its arguments: at most so many `others`. Throws a
 * UsageError.
 */
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

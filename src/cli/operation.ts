/** How a row of the table of operations becomes a command: its words and flags, and the plain way to run it. */
import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import { LIMIT } from '../contract.js';
import { cutToBytes } from '../contract/input-checks.js';
import type { Operation } from '../operations.js';
import type { Arguments } from '../operations/arguments.js';
import { addFlags, helpOf, readFlags } from './flags.js';
import { printAnswer, withSession } from './session.js';
import { printable, show } from './show.js';
import { addJobName, type JobNameFlags, readJobName } from './targets.js';

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
  const command = addOperation(program, operation);
  command.action(async () => {
    const { json, ...typed } = command.opts<JobNameFlags & { json?: boolean }>();
    const [name] = operation.of === 'job' ? readJobName(command.args, typed) : [null];
    const args = readArguments(typed, operation);
    await withSession(command, async ({ jobs, signal }) => {
      const job = name === null ? null : jobs.handle(name);
      const call = { jobs, args, waitMs: 0, keyName: null, gone: signal, ending: new AbortController().signal };
      const body = await operation.run({ ...call, projectId: typed.project ?? null, job: () => job! });
      const answer = { ...(job && { workflowId: job.workflowId }), ...args, ...body };
      const report = job && operation.report && `${printable(job.workflowId)} ${operation.report}`;
      printAnswer(json, answer, () => report ?? show(answer));
    });
  });
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

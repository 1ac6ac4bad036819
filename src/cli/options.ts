/** Options that several commands share, and what their texts mean. Values are checked with the whole input. */
import { hostname, userInfo } from 'node:os';
import { Option, type Command } from 'commander';
import {
  type AgentJobOptions,
  type Attribution,
  type JobMetadata,
  LIMIT,
  type PollingInput,
  type Priority,
  type UnknownOutcomePolicy,
} from '../contract.js';
import { UsageError } from './exit.js';

/** How an option of a job is typed: its flags, and what their texts mean; undefined where a flag is not given. */
interface JobFlags<Value> {
  flags: readonly Option[];
  read(typed: unknown[]): Value;
}

/** A duration is a text such as "30 seconds", or milliseconds. The compiler notices an option that has no line. */
const JOB_FLAGS: { readonly [Name in keyof AgentJobOptions]-?: JobFlags<AgentJobOptions[Name]> } = {
  priority: one(priorityFlag('who goes first where creates wait for the project’s budget'), toPriority),
  batch: one(new Option('--batch <label>', 'a label to find jobs by that were started together')),
  tags: many(new Option('--tag <label>', 'a label to filter by; may be repeated')),
  metadata: many(
    new Option('--meta <name=text>', 'the caller’s own, told back by state, result and logs; may be repeated'),
    toMetadata,
  ),
  deadline: one(new Option('--deadline <duration>', 'give up watching after this long (default: 24 hours)')),
  startWithin: one(
    new Option(
      '--start-within <duration>',
      'give up where the create waits longer for its first turn (default: for ever)',
    ),
  ),
  polling: {
    flags: [
      new Option('--poll-min <duration>', 'shortest wait between two reads (default: 2 seconds)'),
      new Option('--poll-max <duration>', 'longest wait between two reads (default: 60 seconds)'),
      new Option('--poll-ratio <number>', 'wait as a share of the time since the last change (default: 0.1)'),
    ],
    read: toPolling,
  },
  onUnknownOutcome: one(
    new Option('--on-unknown-outcome <policy>', 'when a write may or may not have arrived (default: ask)').choices([
      'ask',
      'fail',
      'retry',
    ]),
    (policy) => policy as UnknownOutcomePolicy,
  ),
  decideWithin: one(new Option('--decide-within <duration>', 'how long to wait for a person then (default: for ever)')),
  settle: one(
    new Option('--settle <duration>', 'read an end again that comes this soon after a follow-up (default: 5 seconds)'),
  ),
  linger: one(new Option('--linger <duration>', 'stay open for follow-ups this long after the end (default: 0)')),
};

function one<Value = string>(flag: Option, read?: (text: string) => Value): JobFlags<Value> {
  return { flags: [flag], read: ([text]: [string]) => (read ? read(text) : (text as Value)) };
}

function many<Value = string[]>(flag: Option, read?: (texts: string[]) => Value): JobFlags<Value> {
  return { flags: [flag.argParser(collect)], read: ([texts]: [string[]]) => (read ? read(texts) : (texts as Value)) };
}

/** Adds the options of a job to a command. */
export function addJobOptions(command: Command): Command {
  for (const { flags } of Object.values(JOB_FLAGS)) for (const flag of flags) command.addOption(flag);
  return command;
}

/** The options of the contract from a command's flags; their values are checked with the whole input. */
export function toJobOptions(typed: object): AgentJobOptions {
  const options = Object.entries(JOB_FLAGS).flatMap(([name, option]) => {
    const texts = option.flags.map((flag) => (typed as Record<string, unknown>)[flag.attributeName()]);
    return texts.every((text) => text === undefined) ? [] : [[name, option.read(texts)]];
  });
  return Object.fromEntries(options) as AgentJobOptions;
}

function toPolling([min, max, ratio]: [min?: string, max?: string, ratio?: string]): PollingInput {
  return { min: min ?? null, max: max ?? null, ratio: ratio === undefined ? null : toNumber(ratio, '--poll-ratio') };
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
  return command.addOption(priorityFlag(effect, unless));
}

function priorityFlag(effect: string, unless = '3'): Option {
  return new Option('--priority <number>', `${effect}: 1 to 5, 1 first (default: ${unless})`);
}

/** A priority from a command line; its value is checked with the whole input. */
export function toPriority(text: string): Priority;
export function toPriority(text: string | undefined): Priority | undefined;
export function toPriority(text: string | undefined): Priority | undefined {
  return text === undefined ? undefined : (toNumber(text, '--priority') as Priority);
}

/** A whole number that an option means; throws a UsageError. */
export function toWholeNumber(text: string, flag: string, { min = 0, max = 1e9, rule = '' } = {}): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= min && number <= max) return number;
  throw new UsageError(`${flag} must be a whole number${rule}`);
}

/** How many at most, where 0 stands for all. */
export function toLimit(text: string): number {
  return toWholeNumber(text, '--limit', { rule: ', 0 for all' }) || Infinity;
}

function toNumber(text: string, flag: string): number {
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number)) throw new UsageError(`${flag} must be a number`);
  return number;
}

/** The time that an option means; a date is midnight by UTC. Throws a UsageError. */
export async function toTime(flag: string, text: string | undefined): Promise<Date | undefined> {
  if (text === undefined) return undefined;
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const time = new Date(text);
    if (!Number.isNaN(time.getTime())) return time;
  }
  const { checkDuration } = await import('../contract/input-checks.js');
  try {
    return new Date(Date.now() - checkDuration(text, flag));
  } catch {
    throw new UsageError(`${flag} must be a time such as 2026-01-31T09:15Z, or how long ago, such as "2 hours"`);
  }
}

export interface AttributionFlags {
  by?: string;
  note?: string;
}

/** Adds `--by` and `--note`. */
export function addAttributionOptions(command: Command): void {
  command
    .option('--by <name>', 'who decides, at most 200 bytes (default: the user and the host)')
    .option('--note <text>', 'why, at most 1,000 bytes');
}

/** Checks `--by` and `--note`; throws InvalidInputError. */
export async function readAttribution({ by, note }: AttributionFlags): Promise<{ by?: string; note?: string }> {
  const { parseAttribution } = await import('../agent-job/input.js');
  return parseAttribution({ by: by ?? (await userAtHost()), note } satisfies { [name in keyof Attribution]: unknown });
}

/** The user and the host as the system knows them, in the form of `by`. */
export async function userAtHost(readUser: () => { username: string } = userInfo): Promise<string> {
  const { cutToBytes } = await import('../contract/input-checks.js');
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

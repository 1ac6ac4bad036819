/** The command-line options of an operation: those of each argument, their help, and how they are read. */
import { type Command, Option } from 'commander';
import type { JobMetadata } from '../contract.js';
import { duration, type JsonSchema } from '../contract/kinds.js';
import type { Arguments } from '../operations/arguments.js';
import { UsageError } from './exit.js';

/** One argument as it is typed; `read` answers undefined if it is not given. */
interface TypedArgument {
  readonly flags: readonly Option[];
  readonly read: (typed: Readonly<Record<string, unknown>>) => unknown;
}

const TYPED_NAMES: Readonly<Record<string, string>> = {
  polling: 'poll',
  tags: 'tag',
  metadata: 'meta',
  startedAfter: 'since',
  startedBefore: 'until',
  endedAfter: 'ended-since',
};

/** What the command line does besides, by the name of the flag. */
const MORE: Readonly<Record<string, string>> = {
  by: '; default the user and the host',
  key: '; default a new one each time',
};
const SUCH_AS = ', such as 2026-01-31T09:15Z, or "2 hours" for 2 hours ago';

/** Options that few callers need, in a group of their own. */
const RARE = /^--(settle|poll-|deadline|start-within|decide-within|on-unknown|priority)/;

/** Adds the flags of all arguments. */
export function addFlags(command: Command, fields: Arguments): Command {
  const flags = [...typedArguments(fields).values()].flatMap((one) => one.flags);
  for (const flag of flags) command.addOption(RARE.test(flag.flags) ? flag.helpGroup('Waits and limits:') : flag);
  return command;
}

/** The arguments that flags give; their values are checked by their kinds. Throws a UsageError. */
export function readFlags(typed: object, fields: Arguments): Record<string, unknown> {
  const given = [...typedArguments(fields)].map(([name, { read }]) => [name, read(typed as Record<string, unknown>)]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Record<string, unknown>;
}

function typedArguments(fields: Arguments): Map<string, TypedArgument> {
  return new Map(Object.entries(fields).map(([name, kind]) => [name, typedArgument(name, kind.schema())]));
}

function typedArgument(name: string, schema: JsonSchema): TypedArgument {
  const { properties } = schema as { properties?: Record<string, JsonSchema> };
  const word = TYPED_NAMES[name] ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  if (!properties) return oneFlag(word, schema);
  const parts = Object.entries(properties).map(([part, inner]) => [part, oneFlag(`${word}-${part}`, inner)] as const);
  return {
    flags: parts.flatMap(([, { flags }]) => flags),
    read: (typed) => {
      const given = parts.map(([part, { read }]) => [part, read(typed)] as const);
      return given.every(([, value]) => value === undefined) ? undefined : Object.fromEntries(given);
    },
  };
}

function oneFlag(word: string, schema: JsonSchema): TypedArgument {
  const { description = '', enum: words } = schema as { description?: string; enum?: unknown[] };
  const [value, meaning, isMany = false] = meaningOf(word, schema);
  const more = [value === 'time' && SUCH_AS, MORE[word], isMany && '; may be repeated'];
  const help = [helpOf(description), ...more].filter(Boolean).join('');
  const option = new Option(`--${word}${value && ` <${value}>`}`, help);
  if (words) option.choices(words.filter((one): one is string => typeof one === 'string'));
  if (isMany) option.argParser((text, earlier?: readonly string[]) => [...(earlier ?? []), text]);
  const read: TypedArgument['read'] = (typed) => {
    const given = typed[option.attributeName()];
    return given === undefined ? undefined : meaning(given as never);
  };
  return { flags: [option], read };
}

/** What stands for the value in help, what its text means, and whether it comes several times. */
function meaningOf(
  word: string,
  schema: JsonSchema,
): [value: string, meaning: (given: never) => unknown, isMany?: true] {
  const [type] = [schema['type']].flat();
  const asItIs = (given: unknown) => given;
  if ('x-max-duration-ms' in schema) return ['duration', asItIs];
  if (type === 'boolean') return ['', asItIs];
  if (type === 'array') return ['text', asItIs, true];
  if (type === 'object') return ['name=text', (pairs: readonly string[]) => toMetadata(pairs), true];
  if (type === 'integer' || type === 'number') return ['number', (text: string) => toNumber(text, `--${word}`)];
  if (schema['format'] === 'date-time') return ['time', (text: string) => toTime(`--${word}`, text)];
  return [/(^|-)id$/.test(word) ? 'id' : 'enum' in schema ? 'word' : 'text', asItIs];
}

/** The first sentence of a description, as help has it. */
export function helpOf(description: string): string {
  const [first = ''] = description.split(/\.(?= |$)/);
  return first.replaceAll('`', '').replace(/^[A-Z](?=[a-z' ])/, (letter) => letter.toLowerCase());
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

/** A whole number that a flag means; throws a UsageError. */
export function toWholeNumber(text: string, flag: string, rule = ''): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`${flag} must be a whole number${rule}`);
}

/** How many at most; 0 stands for all. */
export function toLimit(text: string): number {
  return toWholeNumber(text, '--limit', ', 0 for all') || Infinity;
}

function toNumber(text: string, flag: string): number {
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number)) throw new UsageError(`${flag} must be a number`);
  return number;
}

/** The time that a flag means, in ISO 8601; a date is midnight by UTC. Throws a UsageError. */
function toTime(flag: string, text: string): string {
  const time = new Date(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(time.getTime())) return time.toISOString();
  try {
    return new Date(Date.now() - duration().check(text, flag)).toISOString();
  } catch {
    throw new UsageError(`${flag} must be a time such as 2026-01-31T09:15Z, or how long ago, such as "2 hours"`);
  }
}

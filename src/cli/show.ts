/** The one printer: any answer as lines for a person, lists as tables, and the commands that resolve a doubt. */
import { printable, printableLines, shellWord, waitTimes } from '../agent-job/shown-text.js';
import type { Decision, FollowUpStatus, InDoubtWrite, JobRecord, Waiting } from '../contract.js';
import { textsOf, WORDS } from '../contract/words.js';
import type { GlobalOptions } from './session.js';

export { printable, printableLines, shellWord };

type Row = readonly [label: string, value: unknown];

/** The labels of fields for people; any other field is named by the words of its own name. */
const LABELS: Readonly<Record<string, string>> = {
  workflowId: 'Workflow',
  url: 'Web UI',
  projectId: 'Project',
  jobId: 'Job',
  prLink: 'Pull request',
  workflowStatus: 'Temporal',
  status: 'Upstream',
};

/** Fields that only programs read. */
const UNSHOWN = ['usedFollowUpIds', 'promptHashes', 'snapshotId'];

/** Fields whose values have a form of their own. */
const ROWS: Readonly<Record<string, (value: never) => readonly Row[]>> = {
  phase: (phase: string) => [['Phase', inWords(phase, textsOf(WORDS.phases))]],
  outcome: (outcome: string) => [['Outcome', inWords(outcome, textsOf(WORDS.ends))]],
  job: ({ status }: JobRecord) => [['Upstream says', status]],
  prLinks: (all: readonly string[]) => (all.length > 1 ? [['All pull requests', all]] : []),
  sawWork: (sawWork: boolean) => [['Follow-up', sawWork ? 'worked on' : 'no sign of work after the follow-up']],
  followUps: (all: readonly FollowUpStatus[]) => [
    ['Follow-ups', all.map(({ id, state, error }) => `${id}: ${state}${error ? ` (${error})` : ''}`).join(', ')],
  ],
  waiting: (waiting: Waiting) => [['Waits for', waitingText(waiting)]],
  decisions: (all: readonly Decision[]) => [['Decided last', all.length > 0 ? decisionText(all.at(-1)!) : null]],
  unknown: ({ kind, followUpId, reason, since, lookAfter }: InDoubtWrite) => [
    ['In doubt', `${[kind, followUpId].filter(Boolean).join(' ')} since ${since}: ${reason}`],
    ['Look after', lookAfter],
  ],
};

/** Any answer for a person: a line for each field that says something. */
export function show(answer: object, more: readonly Row[] = []): string {
  const rows = Object.entries(answer).flatMap(([name, value]): readonly Row[] => {
    if (value == null || UNSHOWN.includes(name)) return [];
    return ROWS[name]?.(value as never) ?? [[labelOf(name), value]];
  });
  return linesOf([...rows, ...more].flatMap(([label, value]) => (textOf(value) ? [[label, textOf(value)]] : [])));
}

/** A list of answers as a table of these fields. */
export function showRows(rows: readonly object[], names: readonly string[]): string {
  const cellsOf = (row: object) => names.map((name) => textOf((row as Record<string, unknown>)[name]));
  return linesOf([names.map((name) => labelOf(name).toUpperCase()), ...rows.map(cellsOf)]);
}

function labelOf(name: string): string {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return LABELS[name] ?? words[0]!.toUpperCase() + words.slice(1);
}

/** A value in a line; empty if it says nothing. */
function textOf(value: unknown): string {
  if (value == null) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  if (typeof value === 'object') {
    const parts = Object.entries(value).filter(([, inner]) => inner != null);
    return parts.map(([name, inner]) => `${printable(name)}=${textOf(inner)}`).join(', ');
  }
  const text = String(value as string | number);
  return printable(ISO_TIME.test(text) ? readableTime(text) : text);
}

/** A value that is a time and nothing else: a time inside of a text stays as it is, to be copied. */
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

function linesOf(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => widest(rows, column));
  const lineOf = (cells: readonly string[]) => widths.map((width, column) => (cells[column] ?? '').padEnd(width));
  return rows.map((cells) => lineOf(cells).join('  ').trimEnd()).join('\n');
}

/** Far faster than spreading the widths of thousands of rows. */
function widest(rows: readonly (readonly string[])[], column: number): number {
  return rows.reduce((most, cells) => Math.max(most, cells[column]?.length ?? 0), 0);
}

/** A word of the contract with its meaning; a word of a newer release as it is. */
function inWords(word: string, { [word]: meaning = word }: Readonly<Record<string, string>>): string {
  return meaning === word ? word : `${word}: ${meaning}`;
}

function waitingText(waiting: Waiting): string {
  const why = waiting.reason === undefined ? '' : `: ${waiting.reason}`;
  return `${waiting.for} ${waitTimes(waiting, readableTime)}${why}`;
}

/** A decision in one line. */
export function decisionText({ action, kind, followUpId, by, note, at }: Decision): string {
  const write = kind === 'create' ? 'the create' : `follow-up ${followUpId}`;
  return `${action} for ${write}, ${readableTime(at)}${by ? ` by ${by}` : ''}${note ? `: ${note}` : ''}`;
}

/** The commands that resolve a write in doubt, each with its case. They name the write that was shown. */
export function resolveCommands(workflowId: string, inDoubt: InDoubtWrite | null, globals: GlobalOptions): Row[] {
  if (!inDoubt) return [];
  const arrived = inDoubt.kind === 'create' ? ['adopt', '--job-id', 'ID_OF_THE_JOB'] : ['delivered'];
  const command = (...action: string[]) => hint(globals, ['resolve', workflowId, ...action, '--since', inDoubt.since]);
  return [
    ['If it is there', command(...arrived)],
    ['If it is not', command('retry')],
    ['To give it up', command('abandon')],
  ];
}

/** The first line of a prompt, at most `maxCharacters` of it. */
export function firstLine(text: string, maxCharacters: number): string {
  const line = text.trimStart().split(/[\r\n]/, 1)[0] ?? '';
  return line.length <= maxCharacters ? line : `${line.slice(0, maxCharacters - 1).toWellFormed()}…`;
}

/** `1 job`, `2,000 jobs`. */
export function countOf(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

/** `2026-01-31 09:15:00 UTC`. */
function readableTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
}

/** A command to copy, with the connection options that this one was called with. */
export function hint({ address, namespace, taskQueue }: GlobalOptions, words: readonly string[]): string {
  const given = { '--address': address, '--namespace': namespace, '--task-queue': taskQueue };
  const options = Object.entries(given).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
  return ['npx', 'agent-jobs', ...options, ...words].map(shellWord).join(' ');
}

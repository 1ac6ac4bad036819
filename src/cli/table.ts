/**
 * Tables: whole for a program; fitted to a terminal, where long cells are cut, and the least of the columns left out,
 * before a line is broken.
 */
import { styleText } from 'node:util';
import { printable, printableLines } from '../agent-job/terminal-text.js';
import { shellWord } from '../agent-job/waiting-text.js';
import type { JobSummary } from '../starter.js';

/** Two columns of labels and values; rows without a value are left out. */
export function fields(rows: readonly (readonly [label: string, value: string | null | undefined])[]): string {
  return linesOf(rows.flatMap(([label, value]) => (value ? [[label, printable(value)]] : [])));
}

/** Columns under their headings. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  return linesOf([headings, ...rows.map((row) => row.map(printable))]);
}

function linesOf(rows: readonly (readonly string[])[]): string {
  const sizes = (rows[0] ?? []).map((_, column) => widest(rows, column));
  return rows.map((cells) => lineOf(sizes.map((size, column) => padTo(cells[column] ?? '', size)))).join('\n');
}

function lineOf(cells: readonly string[]): string {
  return cells.join(GAP).trimEnd();
}

function padTo(text: string, size: number): string {
  return text + ' '.repeat(Math.max(0, size - textWidth(text)));
}

/** Far faster than spreading the widths of thousands of rows. */
function widest(rows: readonly (readonly string[])[], column: number): number {
  return rows.reduce((most, cells) => Math.max(most, textWidth(cells[column] ?? '')), 0);
}

/** One column, from left to right. */
interface Column {
  heading: string;
  /** Cut down to so many places where the line is too long; default: never. */
  least?: number;
  /** Cut in the middle: what tells it apart stands at its end. */
  isCutInMiddle?: boolean;
  /** Left out where cutting is not enough, the highest first; default: never. */
  dropRank?: number;
}

/** A cell; a colour changes no width. */
type Cell = string | { text: string; colour: Colour };

const GAP = '  ';
/** Of East Asia, and emoji. */
const WIDE = /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60]|\p{Emoji_Presentation}/u;
const GRAPHEMES = new Intl.Segmenter();
const NO_WIDTH = /\p{Mn}|\p{Me}|\p{Cf}/u;

/** The lines of a table, headings first, none of them wider than `width`. */
export function fittedTable(columns: readonly Column[], rows: readonly (readonly Cell[])[], width: number): string[] {
  const texts = rows.map((row) => row.map((cell) => printable(textOf(cell))));
  const fitted = fit(columns, texts, width);
  const line = (cells: readonly string[], row?: readonly Cell[]) => {
    const parts = fitted.map(({ index, size }, place) => {
      const cut = cutTo(cells[index] ?? '', size, columns[index]!.isCutInMiddle);
      const padded = place === fitted.length - 1 ? cut : padTo(cut, size);
      const cell = row?.[index];
      return typeof cell === 'object' && cut !== '' ? paint(cell.colour, padded) : padded;
    });
    return lineOf(parts);
  };
  const headings = columns.map(({ heading }) => heading);
  return [line(headings), ...texts.map((cells, row) => line(cells, rows[row]))];
}

function textOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.text;
}

/** Which columns stay, and how wide each is. */
function fit(columns: readonly Column[], texts: readonly string[][], width: number): { index: number; size: number }[] {
  const measured = columns.map(({ heading }, index) => {
    const longest = widest(texts, index);
    const size = longest === 0 ? 0 : Math.max(longest, heading.length);
    return { index, size, least: Math.min(size, columns[index]?.least ?? size), rank: columns[index]?.dropRank ?? 0 };
  });
  // A column without a value says nothing.
  let kept = measured.filter(({ size }) => size > 0);
  const room = () => width - GAP.length * (kept.length - 1);
  const sum = (of: (column: (typeof kept)[number]) => number) => kept.reduce((total, column) => total + of(column), 0);
  while (sum(({ least }) => least) > room()) {
    const last = kept.reduce((most, column) => (column.rank > most.rank ? column : most));
    if (last.rank === 0) break;
    kept = kept.filter((column) => column !== last);
  }
  for (let over = sum(({ size }) => size) - room(); over > 0;) {
    const widest = kept.reduce((most, column) => (column.size - column.least > most.size - most.least ? column : most));
    if (widest.size > widest.least) {
      widest.size -= 1;
      over -= 1;
    } else if (widest.least > 1) for (const column of kept) column.least = 1;
    else break;
  }
  return kept;
}

/** How many places a text takes on a terminal, as far as one can know. */
export function textWidth(text: string): number {
  // oxlint-disable-next-line no-control-regex -- the range begins at the space
  if (/^[\x20-\x7E]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += NO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

/** The text in at most so many places, with `…` where something is left out. */
export function cutTo(text: string, places: number, isCutInMiddle = false): string {
  if (textWidth(text) <= places) return text;
  const tail = isCutInMiddle ? Math.floor((places - 1) / 2) : 0;
  const characters = Array.from(GRAPHEMES.segment(text), ({ segment }) => segment);
  return `${taken(characters, places - 1 - tail)}…${taken(characters.toReversed(), tail, true)}`;
}

function taken(characters: readonly string[], places: number, isReversed = false): string {
  const kept: string[] = [];
  let left = places;
  for (const character of characters) {
    left -= textWidth(character);
    if (left < 0) break;
    kept.push(character);
  }
  return (isReversed ? kept.reverse() : kept).join('');
}

const COLUMNS: readonly Column[] = [
  { heading: 'WORKFLOW', least: 24, isCutInMiddle: true },
  { heading: 'PHASE' },
  { heading: 'WAITS FOR' },
  { heading: 'OUTCOME' },
  { heading: 'UPSTREAM', least: 9, dropRank: 1 },
  { heading: 'TEMPORAL', dropRank: 3 },
  { heading: 'STARTED', dropRank: 2 },
  { heading: 'PULL REQUEST', least: 20, isCutInMiddle: true, dropRank: 4 },
  { heading: 'TAGS', least: 8, dropRank: 5 },
  { heading: 'TITLE', least: 12, dropRank: 6 },
];
/** Texts of the caller are nobody's state, whatever they are. */
const UNCOLOURED = ['WORKFLOW', 'PULL REQUEST', 'TAGS', 'TITLE'];
/** `--json` has titles whole. */
const TITLE_CHARACTERS = 60;

const COLOURS: Record<string, Colour> = {
  needsAttention: 'red',
  person: 'red',
  key: 'red',
  upstream: 'yellow',
  turn: 'yellow',
  rateLimit: 'yellow',
  completed: 'green',
  archived: 'green',
  failed: 'red',
  terminated: 'red',
  timed_out: 'red',
  cancelled: 'yellow',
  running: 'cyan',
};

/** The table as a text, for a terminal of this width or, without one, for a program. */
export function formatJobs(jobs: readonly JobSummary[], terminal?: { width: number; now: number }): string {
  if (terminal === undefined) {
    const rows = jobs.map((job) => cellsOf(job, readableTime(job.startedAt)));
    return table(
      COLUMNS.map(({ heading }) => heading),
      rows,
    );
  }
  const { width, now } = terminal;
  const rows = jobs.map((job) => cellsOf(job, relativeTime(job.startedAt, now)).map(coloured));
  return fittedTable(COLUMNS, rows, width).join('\n');
}

/** The terminal of standard output; undefined where that is a file or a pipe. */
export function outputTerminal(): { width: number; now: number } | undefined {
  return process.stdout.isTTY ? { width: process.stdout.columns || 80, now: Date.now() } : undefined;
}

function cellsOf(job: JobSummary, started: string): string[] {
  return [
    job.workflowId,
    job.phase ?? '',
    job.waitingFor ?? '',
    job.outcome ?? '',
    job.status ?? '',
    readableStatus(job.workflowStatus),
    started,
    job.prLink ?? '',
    job.tags.join(', '),
    shortTitle(job),
  ];
}

/** Temporal's status of a workflow, for people. */
export function readableStatus(workflowStatus: string): string {
  return workflowStatus.toLowerCase();
}

/** The project stands in the workflow's id. */
function shortTitle({ title, projectId }: JobSummary): string {
  const characters = Array.from((title ?? '').replace(`${projectId}: `, ''));
  if (characters.length <= TITLE_CHARACTERS) return characters.join('');
  return `${characters.slice(0, TITLE_CHARACTERS - 1).join('')}…`;
}

function coloured(text: string, column: number): Cell {
  const colour = UNCOLOURED.includes(COLUMNS[column]!.heading) ? undefined : COLOURS[text];
  return colour === undefined ? text : { text, colour };
}

export { printable, printableLines, shellWord };

/** What is coloured, and nothing else. */
export type Colour = 'green' | 'yellow' | 'red' | 'cyan' | 'dim' | 'bold';

/** A text in a colour where the stream shows colours; Node reads NO_COLOR, FORCE_COLOR and TERM. */
export function paint(colour: Colour, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(colour, text, { stream });
}

/** A file that is written to standard output: whole, but at a terminal text that it only shows. */
export function forStdout(file: string): string {
  return process.stdout.isTTY ? printableLines(file) : file;
}

/**
 * An error's message, or another text that quotes it, with what to do where the SDK's converter, which knows of no
 * keys, met an encrypted payload.
 */
export function withKeysHint(message: string): string {
  if (!message.includes('Unknown encoding: binary/encrypted')) return message;
  return `${message}; set PAYLOAD_KEYS_FILE here and for the workers`;
}

/** The first line of a prompt, at most 100 characters. */
export function firstLine(text: string): string {
  const line = text.trimStart().split(/[\r\n]/, 1)[0] ?? '';
  return line.length <= 100 ? line : `${line.slice(0, 99).toWellFormed()}…`;
}

/** `1 job`, `2,000 jobs`. */
export function countOf(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

/** `2026-01-31 09:15:00 UTC`. */
export function readableTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
}

/** A command to copy, with the connection options that this one was called with. */
export function hint(
  connection: { address?: string; namespace?: string; taskQueue?: string },
  words: string[],
): string {
  const { address, namespace, taskQueue } = connection;
  const options = [
    ...(address === undefined ? [] : ['--address', address]),
    ...(namespace === undefined ? [] : ['--namespace', namespace]),
    ...(taskQueue === undefined ? [] : ['--task-queue', taskQueue]),
  ];
  return ['npx', 'agent-jobs', ...options, ...words].map(shellWord).join(' ');
}

/** `45 s`, `12 min`, `3.5 h`, `4 days`. */
export function durationText(ms: number): string {
  const minutes = ms / 60_000;
  if (minutes < 1) return `${Math.round(ms / 1_000)} s`;
  if (minutes < 120) return `${Math.round(minutes)} min`;
  return minutes < 2 * 24 * 60 ? `${(minutes / 60).toFixed(1)} h` : `${Math.round(minutes / (24 * 60))} days`;
}

/** `5 min ago`, `in 5 min`. */
export function relativeTime(iso: string, now: number): string {
  const ms = Date.parse(iso) - now;
  const length = durationText(Math.abs(ms));
  return ms >= 0 ? `in ${length}` : `${length} ago`;
}

/**
 * Tables: whole for a program; fitted to a terminal, where long cells are cut, and the last columns left out, before a
 * line is broken.
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
  /** Holds a state, which has a colour; other texts are the caller's, whatever they are. */
  isState?: boolean;
}

const GAP = '  ';
/** Of East Asia, and emoji. */
const WIDE = /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60]|\p{Emoji_Presentation}/u;
const GRAPHEMES = new Intl.Segmenter();
const NO_WIDTH = /\p{Mn}|\p{Me}|\p{Cf}/u;

/** The lines of a table, headings first, none of them wider than `width`. */
export function fittedTable(columns: readonly Column[], rows: readonly (readonly string[])[], width: number): string[] {
  const texts = rows.map((row) => row.map(printable));
  const fitted = fit(columns, texts, width);
  const line = (cells: readonly string[], isHeading = false) =>
    lineOf(
      fitted.map(({ index, size }, place) => {
        const { isCutInMiddle, isState } = columns[index]!;
        const text = cells[index] ?? '';
        const cut = cutTo(text, size, isCutInMiddle);
        const padded = place === fitted.length - 1 ? cut : padTo(cut, size);
        const colour = isState && !isHeading ? COLOURS[text] : undefined;
        return colour === undefined ? padded : paint(colour, padded);
      }),
    );
  return [
    line(
      columns.map(({ heading }) => heading),
      true,
    ),
    ...texts.map((cells) => line(cells)),
  ];
}

/** Which columns stay, and how wide each is. One without a value says nothing; the first one always stays. */
function fit(columns: readonly Column[], texts: readonly string[][], width: number): { index: number; size: number }[] {
  let left = width;
  const kept: { index: number; size: number; least: number }[] = [];
  for (const [index, { heading, least = Infinity }] of columns.entries()) {
    const longest = widest(texts, index);
    if (longest === 0) continue;
    const size = Math.max(longest, heading.length);
    const needed = Math.min(size, least) + (kept.length === 0 ? 0 : GAP.length);
    if (needed > left && kept.length > 0) break;
    kept.push({ index, size, least: Math.min(size, least, width) });
    left -= needed;
  }
  return kept.map(({ index, size, least }) => {
    const more = Math.min(size - least, Math.max(0, left));
    left -= more;
    return { index, size: least + more };
  });
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
  { heading: 'PHASE', isState: true },
  { heading: 'WAITS FOR', isState: true },
  { heading: 'OUTCOME', isState: true },
  { heading: 'UPSTREAM', least: 9, isState: true },
  { heading: 'STARTED' },
  { heading: 'TEMPORAL', isState: true },
  { heading: 'PULL REQUEST', least: 20, isCutInMiddle: true },
  { heading: 'TAGS', least: 8 },
  { heading: 'TITLE', least: 12 },
];
/** `--json` has titles whole. */
const TITLE_PLACES = 60;

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
  const startOf = ({ startedAt }: JobSummary) =>
    terminal ? relativeTime(startedAt, terminal.now) : readableTime(startedAt);
  const rows = jobs.map((job) => [
    ...[job.workflowId, job.phase, job.waitingFor, job.outcome, job.status].map((text) => text ?? ''),
    ...[startOf(job), readableStatus(job.workflowStatus), job.prLink ?? '', job.tags.join(', ')],
    // The project stands in the workflow's id.
    cutTo((job.title ?? '').replace(`${job.projectId}: `, ''), TITLE_PLACES),
  ]);
  if (terminal) return fittedTable(COLUMNS, rows, terminal.width).join('\n');
  const headings = COLUMNS.map(({ heading }) => heading);
  return table(headings, rows);
}

/** The terminal of standard output; undefined where that is a file or a pipe. */
export function outputTerminal(): { width: number; now: number } | undefined {
  return process.stdout.isTTY ? { width: process.stdout.columns || 80, now: Date.now() } : undefined;
}

/** Temporal's status of a workflow, for people. */
export function readableStatus(workflowStatus: string): string {
  return workflowStatus.toLowerCase();
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

/**
 * Tables: whole for a program; fitted to a terminal, where long cells are cut, and the least of the columns left out,
 * before a line is broken.
 */
import type { JobSummary } from '../starter.js';
import { paint, printable, readableTime, relativeTime, type Colour } from './text.js';

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
export interface Column {
  heading: string;
  /** Cut down to so many places where the line is too long; default: never. */
  least?: number;
  /** Cut in the middle: what tells it apart stands at its end. */
  isCutInMiddle?: boolean;
  /** Left out where cutting is not enough, the highest first; default: never. */
  dropRank?: number;
}

/** A cell; a colour changes no width. */
export type Cell = string | { text: string; colour: Colour };

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

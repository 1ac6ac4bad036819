/** Texts for people: tables, times, and whatever else commands show alike. */
import { printable, printableLines } from '../agent-job/terminal-text.js';
import { shellWord } from '../agent-job/waiting-text.js';

/** Two columns of labels and values; rows without a value are left out. */
export function fields(rows: readonly (readonly [label: string, value: string | null | undefined])[]): string {
  return linesOf(rows.flatMap(([label, value]) => (value ? [[label, printable(value)]] : [])));
}

/** Columns under their headings. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  return linesOf([headings, ...rows.map((row) => row.map(printable))]);
}

function linesOf(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => widest(rows, column));
  const lineOf = (cells: readonly string[]) => widths.map((width, column) => (cells[column] ?? '').padEnd(width));
  return rows.map((cells) => lineOf(cells).join('  ').trimEnd()).join('\n');
}

/** Far faster than spreading the widths of thousands of rows. */
function widest(rows: readonly (readonly string[])[], column: number): number {
  return rows.reduce((most, cells) => Math.max(most, cells[column]?.length ?? 0), 0);
}

export { printable, printableLines, shellWord };

/** A file that is written to standard output: whole, but at a terminal text that it only shows. */
export function forStdout(file: string): string {
  return process.stdout.isTTY ? printableLines(file) : file;
}

/** The first line of a prompt, at most so many characters. */
export function firstLine(text: string, most = 100): string {
  const line = text.trimStart().split(/[\r\n]/, 1)[0] ?? '';
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`;
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

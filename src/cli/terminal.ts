/** What a command shows and asks at a terminal: lines that are written anew in place, and questions. */
import { stripVTControlCharacters } from 'node:util';
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { printToStderr } from './session.js';
import { cutTo, printable, printableLines, textWidth } from './table.js';

const BAR_CHARS = 24;
const NARROWEST_TERMINAL = 80;
/** Faster changes can't be read. */
const TERMINAL_EVERY_MS = 100;

/** One line that a terminal shows in place; elsewhere each change is a line of its own. */
export class ProgressLine {
  readonly isTerminal = process.stderr.isTTY;
  readonly #everyMs: number;
  #last = '';
  #shownAt = -Infinity;

  /** `everyMs` bounds how often a line is written where there is no terminal. */
  constructor({ everyMs = 0 }: { everyMs?: number } = {}) {
    this.#everyMs = everyMs;
  }

  show(line: string): void {
    const now = performance.now();
    const everyMs = this.isTerminal ? TERMINAL_EVERY_MS : this.#everyMs;
    if (line === this.#last || now - this.#shownAt < everyMs) return;
    this.#last = line;
    this.#shownAt = now;
    if (!this.isTerminal) return printToStderr(line);
    process.stderr.write(`\r\u001B[K${printable(line).slice(0, (process.stderr.columns || NARROWEST_TERMINAL) - 1)}`);
  }

  /** Takes the line off a terminal, before other output and at the end. */
  clear(): void {
    if (this.isTerminal && this.#last !== '') process.stderr.write('\r\u001B[K');
    this.#last = '';
  }
}

/** A bar, and the share as a percentage. */
export function barOf(share: number): string {
  const full = Math.round(share * BAR_CHARS);
  const percent = String(Math.floor(share * 100)).padStart(3);
  return `[${'#'.repeat(full)}${'.'.repeat(BAR_CHARS - full)}] ${percent} %`;
}

const UP = (lines: number): string => `\u001B[${lines}A`;
const CLEAR_BELOW = '\r\u001B[J';

/** The lower part of the terminal of standard output. */
export class LiveScreen {
  #height = 0;

  /** Writes the lines over those of before; they must fit the size that they are asked for. */
  show(linesFor: (size: { width: number; height: number }) => string[]): void {
    const width = process.stdout.columns || 80;
    const height = process.stdout.rows || 24;
    const lines = linesFor({ width, height }).slice(0, height - 1);
    // A broken line would be two, and the next writing would begin too low.
    const fitting = lines.map((line) =>
      textWidth(stripVTControlCharacters(line)) <= width ? line : cutTo(line, width),
    );
    const up = this.#height === 0 ? '' : UP(Math.min(this.#height, height - 1));
    process.stdout.write(`${up}${CLEAR_BELOW}${fitting.map((line) => `${line}\n`).join('')}`);
    this.#height = fitting.length;
  }

  /** Leaves the lines as they are: what follows is written below. */
  end(): void {
    this.#height = 0;
  }
}

/** The line that is typed; empty at the end of the input. */
async function ask(question: string, signal: AbortSignal): Promise<string> {
  // The terminal itself edits the line, and Ctrl-C stays a signal.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(lines, 'close').then(() => '');
    return (await Promise.race([lines.question(printableLines(question), { signal }), ended])).trim();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    lines.close();
  }
}

/** Somebody did not want it. */
class DeclinedError extends Error {
  override readonly name = 'DeclinedError';
}

/** What decides whether a command asks. */
export interface ConfirmFlags {
  yes?: boolean | undefined;
  json?: boolean | undefined;
}

/** Whether somebody can read a question and type an answer: a script has no terminal, or wants JSON. */
export function canAsk({ json = false }: ConfirmFlags): boolean {
  return !json && process.stdin.isTTY && process.stderr.isTTY;
}

/** Adds the option that answers. */
export function addYesOption(command: Command): Command {
  return command.option('--yes', 'do not ask at a terminal');
}

/**
 * Asks before what can't be undone; throws where the answer is no. `--yes` answers. The question is put together only
 * where it is asked; null where nothing would be done.
 */
export async function confirm(
  question: () => string | null | Promise<string | null>,
  flags: ConfirmFlags,
  signal: AbortSignal,
): Promise<void> {
  if (flags.yes || !canAsk(flags)) return;
  const text = await question();
  if (text === null) return;
  // The input was read as decisions or as a prompt.
  if (process.stdin.readableEnded)
    throw new DeclinedError(`nothing was done: the input has ended; give --yes. ${text}`);
  const answer = await ask(`${text} [y/N] `, signal);
  if (!/^y(es)?$/i.test(answer)) throw new DeclinedError('nothing was done');
}

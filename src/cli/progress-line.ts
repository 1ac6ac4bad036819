/** How far long work is: a line on stderr, so that stdout stays the answer. */
import { printToStderr } from './session.js';
import { printable } from './text.js';

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

/** Lines that a terminal shows in place, written anew with each change; what was above them stays. */
import { stripVTControlCharacters } from 'node:util';
import { cutTo, textWidth } from './fitted-table.js';

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

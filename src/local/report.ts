import type { Environment } from '../config.js';

const LABEL_WIDTH = 12;

/** Writes to the user, one whole line at a time: the same on a terminal as in a file, but for bold labels. */
export class Report {
  readonly #isBold: boolean;

  constructor(env: Environment) {
    this.#isBold = process.stdout.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
    // Whoever read the output may be gone; that is no reason to end the servers the hard way.
    process.stdout.on('error', () => {});
    process.stderr.on('error', () => {});
  }

  /** A line that begins with what it is about. */
  entry(label: string, text: string): void {
    const padded = label.padEnd(LABEL_WIDTH);
    this.line(`${this.#isBold ? `\u001B[1m${padded}\u001B[22m` : padded}${text}`);
  }

  line(text = ''): void {
    process.stdout.write(`${text}\n`);
  }

  error(text: string): void {
    process.stderr.write(`${text}\n`);
  }
}

import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import type { JobScript, JobStep } from './job-script.js';

/** One line of the journal; times are milliseconds since 1970. */
export type JournalEntry =
  | { type: 'create'; id: string; number: number; projectId: string; prompt: string; at: number; script?: JobScript }
  | { type: 'message'; id: string; prompt: string; at: number }
  | { type: 'set'; id: string; step: JobStep; at: number }
  | { type: 'remove'; id: string };

/**
 * An append-only file of JSON lines. A line has been handed to the operating system when `append` returns, so it
 * outlives a killed process (not a killed machine).
 */
export class Journal {
  #file: number | undefined;

  private constructor(file: number | undefined) {
    this.#file = file;
  }

  /** Opens the journal, replays each whole line and truncates a torn last one; without a path nothing is stored. */
  static open(path: string | undefined, replay: (entry: JournalEntry) => void): Journal {
    if (path === undefined) return new Journal(undefined);
    mkdirSync(dirname(path), { recursive: true });
    const bytes = existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
    const whole = bytes.lastIndexOf(0x0a) + 1;
    for (let start = 0; start < whole;) {
      const end = bytes.indexOf(0x0a, start);
      replay(JSON.parse(bytes.toString('utf8', start, end)) as JournalEntry);
      start = end + 1;
    }
    const file = openSync(path, 'a');
    ftruncateSync(file, whole);
    return new Journal(file);
  }

  append(entry: JournalEntry): void {
    if (this.#file !== undefined) writeSync(this.#file, `${JSON.stringify(entry)}\n`);
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    // A late write must not use a descriptor number that another file has been given.
    this.#file = undefined;
  }
}

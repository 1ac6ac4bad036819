/** A small file of settings that is read again when it changes. */
import { readFile, stat } from 'node:fs/promises';

/** A change is noticed within this time; a look at the file with each request would be waste. */
const CHECK_EVERY_MS = 1_000;

/** Parsed again when its time, size or inode changes; `read` throws what the file system or the parser throws. */
export class ReloadingFile<T> {
  readonly #path: string;
  readonly #parse: (text: string) => T;
  readonly #checkEveryMs: number;
  #current: Promise<T> | undefined;
  #seen = '';
  #checkedAt = -Infinity;

  constructor(path: string, parse: (text: string) => T, checkEveryMs = CHECK_EVERY_MS) {
    this.#path = path;
    this.#parse = parse;
    this.#checkEveryMs = checkEveryMs;
  }

  /** The file is read at the next call, changed or not. */
  forget(): void {
    this.#seen = '';
    this.#checkedAt = -Infinity;
  }

  async read(): Promise<T> {
    const now = performance.now();
    if (this.#current === undefined || now - this.#checkedAt >= this.#checkEveryMs) {
      this.#checkedAt = now;
      this.#current = this.#readIfChanged(this.#current);
      // A broken file is looked at again with the next request.
      this.#current.catch(() => this.forget());
    }
    return this.#current;
  }

  async #readIfChanged(last: Promise<T> | undefined): Promise<T> {
    const { mtimeMs, size, ino } = await stat(this.#path);
    const seen = `${mtimeMs} ${size} ${ino}`;
    if (last !== undefined && seen === this.#seen) return last;
    const value = this.#parse(await readFile(this.#path, 'utf8'));
    this.#seen = seen;
    return value;
  }
}

/** A small file of settings that is read again when it changes. While it is wrong, its last good content holds. */
import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';

/** A change is noticed within this time; a check with each request would be waste. */
const CHECK_FILE_EVERY_MS = 1_000;

interface SettingsFileOptions<T> {
  /** The setting that names it. */
  name: string;
  path: string;
  /** Its error's message says what is wrong, and quotes no secret. */
  parse: (text: string) => T;
  /** Receives each new problem that the last good content hides, and null when it is gone. */
  onProblem?: ((problem: string | null) => void) | undefined;
  checkEveryMs?: number | undefined;
}

/** Such a file. */
export class SettingsFile<T> {
  readonly #options: SettingsFileOptions<T>;
  #good: { content: T; seen: string } | null = null;
  #reading: Promise<T> | null = null;
  #checkedAt = -Infinity;
  /** Undefined if nothing was reported yet. */
  #problem: string | null | undefined;

  constructor(options: SettingsFileOptions<T>) {
    this.#options = options;
  }

  /** The content as it is now, or was within the last second. Throws if there never was a good content. */
  async read(): Promise<T> {
    const { checkEveryMs = CHECK_FILE_EVERY_MS } = this.#options;
    if (this.#reading === null || performance.now() - this.#checkedAt >= checkEveryMs) {
      this.#checkedAt = performance.now();
      this.#reading = this.#readGood();
    }
    return this.#reading;
  }

  /** The next `read` reads the file, changed or not. */
  forget(): void {
    this.#checkedAt = -Infinity;
    if (this.#good) this.#good.seen = '';
  }

  async #readGood(): Promise<T> {
    try {
      this.#good = await this.#readIfChanged();
      this.#report(null);
    } catch (error) {
      this.forget(); // A broken file is read again with the next request.
      const { name, path } = this.#options;
      const { code, message } = error as NodeJS.ErrnoException;
      const problem = `${name} ${path} ${code ? unreadable(code) : `is wrong: ${message}`}`;
      if (this.#good === null) throw new Error(problem, { cause: error });
      this.#report(`${problem}; its last good content holds`);
    }
    return this.#good.content;
  }

  /** A file has changed if its time, size or inode has. */
  async #readIfChanged(): Promise<{ content: T; seen: string }> {
    const { path, parse } = this.#options;
    const { mtimeMs, size, ino } = await stat(path);
    const seen = `${mtimeMs} ${size} ${ino}`;
    if (this.#good?.seen === seen) return this.#good;
    // `trim` takes a byte order mark away, too.
    return { content: parse((await readFile(path, 'utf8')).trim()), seen };
  }

  #report(problem: string | null): void {
    if (problem !== this.#problem) this.#options.onProblem?.(problem);
    this.#problem = problem;
  }
}

function unreadable(code: string): string {
  return `cannot be read (${code})`;
}

/** What is wrong with a file, in words that quote no secret if those of `parse` do not; null if nothing is. */
export function fileProblem(path: string, parse: (text: string) => unknown): string | null {
  try {
    parse(readFileSync(path, 'utf8').trim());
    return null;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code ? unreadable(code) : message;
  }
}

/** The value of a JSON text. The parser's own error would quote the text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('it is not valid JSON');
  }
}

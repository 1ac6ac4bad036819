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
    // It takes a byte order mark away, too.
    const value = this.#parse((await readFile(this.#path, 'utf8')).trim());
    this.#seen = seen;
    return value;
  }
}

interface SettingsFileOptions<T> {
  /** The setting that names it. */
  name: string;
  path: string;
  /** Its error's message says what is wrong, and quotes no secret. */
  parse: (text: string) => T;
  /** Told once of each problem that another content hides, and null when it is gone. */
  onProblem: (problem: string | null) => void;
  checkEveryMs?: number | undefined;
}

/** A file of which, while it is wrong, the last good content holds. */
export class SettingsFile<T> {
  readonly #options: SettingsFileOptions<T>;
  readonly #file: ReloadingFile<T>;
  #good: { content: T } | null = null;
  /** Undefined where nothing was told yet. */
  #problem: string | null | undefined;

  constructor(options: SettingsFileOptions<T>) {
    this.#options = options;
    this.#file = new ReloadingFile(options.path, options.parse, options.checkEveryMs);
  }

  /** Throws where there never was a good content. */
  async read(): Promise<T> {
    try {
      this.#good = { content: await this.#file.read() };
      this.#tell(null);
    } catch (error) {
      const { name, path } = this.#options;
      const { code, message } = error as NodeJS.ErrnoException;
      const problem = `${name} ${path} ${code ? `cannot be read (${code})` : `is wrong: ${message}`}`;
      if (this.#good === null) throw new Error(problem, { cause: error });
      this.#tell(`${problem}; its last good content holds`);
    }
    return this.#good.content;
  }

  #tell(problem: string | null): void {
    if (problem !== this.#problem) this.#options.onProblem(problem);
    this.#problem = problem;
  }
}

/** The API keys of the upstream: where they come from, and how a replaced key file is noticed. */
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';

/** Where the keys come from; the file wins over `adminApiKey`, a project's own key over both. */
export interface KeySettings {
  adminApiKey?: string;
  adminApiKeyFile?: string;
  /** A JSON object of projectId → key. */
  projectKeysFile?: string;
}

export interface KeySource {
  /** The key for a project's requests; throws KeyUnavailableError. */
  keyFor(projectId: string): Promise<string>;
  /** Reads the files again, after a 401 or 403; null where they hold no other key than the one used. */
  refresh(projectId: string, usedKey: string): Promise<string | null>;
}

/** A short fingerprint of the project's key, to notice that it changed; null where none is usable. */
export async function keyVersion(keys: KeySource, projectId: string): Promise<string | null> {
  try {
    const key = await keys.keyFor(projectId);
    return createHash('sha256').update(`agent-jobs key version ${key}`).digest('hex').slice(0, 16);
  } catch (error) {
    if (error instanceof KeyUnavailableError) return null;
    throw error;
  }
}

/** No usable key; the message names the variable and the file, never a value. */
export class KeyUnavailableError extends Error {
  override readonly name = 'KeyUnavailableError';
}

/** A rotated key is noticed within this time; a look at the file with each request would be waste. */
const CHECK_EVERY_MS = 1_000;

/** Keys that follow their files: they are read again when they change. */
export function createKeySource(settings: KeySettings, { checkEveryMs = CHECK_EVERY_MS } = {}): KeySource {
  const { adminApiKey, adminApiKeyFile, projectKeysFile } = settings;
  const adminFile = adminApiKeyFile
    ? new ReloadingFile('ADMIN_API_KEY_FILE', adminApiKeyFile, (text) => text.trim(), checkEveryMs)
    : undefined;
  const projectsFile = projectKeysFile
    ? new ReloadingFile('PROJECT_KEYS_FILE', projectKeysFile, parseProjectKeys, checkEveryMs)
    : undefined;

  async function keyFor(projectId: string): Promise<string> {
    const projectKey = (await projectsFile?.read())?.get(projectId);
    if (projectKey !== undefined) return usable(projectKey, `PROJECT_KEYS_FILE ${projectKeysFile}`);
    if (adminFile) return usable(await adminFile.read(), `ADMIN_API_KEY_FILE ${adminApiKeyFile}`);
    if (adminApiKey !== undefined) return usable(adminApiKey.trim(), 'ADMIN_API_KEY');
    throw new KeyUnavailableError(
      projectsFile
        ? `PROJECT_KEYS_FILE ${projectKeysFile} has no key for this project, and ADMIN_API_KEY is not set`
        : 'ADMIN_API_KEY is not set',
    );
  }

  return {
    keyFor,
    async refresh(projectId, usedKey) {
      adminFile?.forget();
      projectsFile?.forget();
      const key = await keyFor(projectId).catch(() => null);
      return key === usedKey ? null : key;
    },
  };
}

/** A key goes into a header as it is. */
function usable(key: string, where: string): string {
  if (key === '') throw new KeyUnavailableError(`${where} holds an empty key`);
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new KeyUnavailableError(`${where} holds characters that a header cannot carry`);
  }
  return key;
}

function parseProjectKeys(text: string): Map<string, string> {
  const keys: unknown = JSON.parse(text);
  if (typeof keys !== 'object' || keys === null || Array.isArray(keys)) throw new Error('not an object');
  const entries = Object.entries(keys).map(([projectId, key]): [string, string] => {
    if (typeof key !== 'string') throw new Error('a key is not a string');
    return [projectId, key.trim()];
  });
  return new Map(entries);
}

/** A small file, parsed again when its time, size or inode changes. */
class ReloadingFile<T> {
  readonly #variable: string;
  readonly #path: string;
  readonly #parse: (text: string) => T;
  readonly #checkEveryMs: number;
  #current: Promise<T> | undefined;
  #seen = '';
  #checkedAt = -Infinity;

  constructor(variable: string, path: string, parse: (text: string) => T, checkEveryMs: number) {
    this.#variable = variable;
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
    try {
      const { mtimeMs, size, ino } = await stat(this.#path);
      const seen = `${mtimeMs} ${size} ${ino}`;
      if (last !== undefined && seen === this.#seen) return await last;
      const value = this.#parse(await readFile(this.#path, 'utf8'));
      this.#seen = seen;
      return value;
    } catch (error) {
      // The parser's own message could quote a key.
      const code = (error as NodeJS.ErrnoException).code;
      throw new KeyUnavailableError(
        `${this.#variable} ${this.#path} ${code ? `cannot be read (${code})` : 'is not valid'}`,
      );
    }
  }
}

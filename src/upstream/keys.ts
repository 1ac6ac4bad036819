/**
 * The API keys of the upstream, and where they come from. A replaced file is noticed by reloading-file.ts, and after a
 * 401 or 403 by client.ts; what a refused key means for writes is in activities/agent-job/key-health.ts.
 */
import { createHash } from 'node:crypto';
import { isObject } from '../contract/shared.js';
import { ReloadingFile } from './reloading-file.js';

/** Where the keys come from; the file wins over `adminApiKey`, a project's own key over both. */
export interface KeySettings {
  adminApiKey?: string;
  adminApiKeyFile?: string;
  /** A JSON object of projectId → key. */
  projectKeysFile?: string;
}

interface KeySource {
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

/** Keys that follow their files: they are read again when they change. */
export function createKeySource(settings: KeySettings, { checkEveryMs }: { checkEveryMs?: number } = {}): KeySource {
  const { adminApiKey, adminApiKeyFile, projectKeysFile } = settings;
  const adminFile = adminApiKeyFile
    ? new KeyFile('ADMIN_API_KEY_FILE', adminApiKeyFile, (text) => text, checkEveryMs)
    : undefined;
  const projectsFile = projectKeysFile
    ? new KeyFile('PROJECT_KEYS_FILE', projectKeysFile, parseProjectKeys, checkEveryMs)
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
  if (!isObject(keys)) throw new Error('not an object');
  const entries = Object.entries(keys).map(([projectId, key]): [string, string] => {
    if (typeof key !== 'string') throw new Error('a key is not a string');
    return [projectId, key.trim()];
  });
  return new Map(entries);
}

/** A file of keys; where it can't be read, the error names the variable and the file. */
class KeyFile<T> extends ReloadingFile<T> {
  readonly #name: string;

  constructor(variable: string, path: string, parse: (text: string) => T, checkEveryMs: number | undefined) {
    super(path, parse, checkEveryMs);
    this.#name = `${variable} ${path}`;
  }

  override async read(): Promise<T> {
    try {
      return await super.read();
    } catch (error) {
      // The parser's own message could quote a key.
      const { code } = error as NodeJS.ErrnoException;
      throw new KeyUnavailableError(`${this.#name} ${code ? `cannot be read (${code})` : 'is not valid'}`);
    }
  }
}

/**
 * The API keys of the upstream, and their sources. A replaced file is noticed by config/settings-file.ts, and after a
 * 401 or 403 by client.ts; what a refused key means for writes is in activities/agent-job/key-health.ts.
 */
import { createHash } from 'node:crypto';
import { parseKey, parseProjectKeys } from '../config/fields.js';
import { SettingsFile } from '../config/settings-file.js';

/** The sources of the keys; the file wins over `adminApiKey`, a project's own key over both. */
export interface KeySettings {
  adminApiKey?: string;
  adminApiKeyFile?: string;
  /** A JSON object of projectId → key. */
  projectKeysFile?: string;
}

/** The keys of all projects. */
export interface KeySource {
  /** The key for a project's requests; throws KeyUnavailableError. */
  keyFor(projectId: string): Promise<string>;
  /** Reads the files again, after a 401 or 403; null if they hold no other key than the one used. */
  refresh(projectId: string, usedKey: string): Promise<string | null>;
}

/** A short fingerprint of the project's key, to notice that it changed; null if none is usable. */
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

interface KeyFileOptions {
  onProblem?: (problem: string | null) => void;
  checkEveryMs?: number;
}

/** Keys that follow their files. While a file is wrong, its last good content holds. */
export function createKeySource(settings: KeySettings, options: KeyFileOptions = {}): KeySource {
  const { adminApiKey, adminApiKeyFile, projectKeysFile } = settings;
  const open = <T>(name: string, path: string | undefined, parse: (text: string) => T) =>
    path === undefined ? undefined : new SettingsFile({ name, path, parse, ...options });
  const adminFile = open('ADMIN_API_KEY_FILE', adminApiKeyFile, parseKey);
  const projectsFile = open('PROJECT_KEYS_FILE', projectKeysFile, parseProjectKeys);

  async function keyFor(projectId: string): Promise<string> {
    const projectKey = projectsFile && (await contentOf(projectsFile)).get(projectId);
    if (projectKey !== undefined) return usable(projectKey, `PROJECT_KEYS_FILE ${projectKeysFile}`);
    if (adminFile) return usable(await contentOf(adminFile), `ADMIN_API_KEY_FILE ${adminApiKeyFile}`);
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

async function contentOf<T>(file: SettingsFile<T>): Promise<T> {
  try {
    return await file.read();
  } catch (error) {
    throw new KeyUnavailableError((error as Error).message);
  }
}

/** A key goes into a header as it is. */
function usable(key: string, source: string): string {
  if (key === '') throw new KeyUnavailableError(`${source} holds an empty key`);
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new KeyUnavailableError(`${source} holds characters that a header cannot carry`);
}

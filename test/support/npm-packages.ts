import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '../../src/local/user-folders.js';

const run = promisify(execFile);
const FETCH_LIMIT_MS = 5 * 60_000;

/**
 * The `node_modules` of packages that this repository does not depend on: each with its version, as npm takes it.
 * Fetched through npm once and kept in the cache folder.
 */
export async function fetchNpmPackages(name: string, requirements: readonly string[]): Promise<string> {
  const programs = join(cacheFolder(process.env), 'programs');
  const target = join(programs, [name, ...requirements].join('+').replaceAll('/', '-'));
  if (existsSync(target)) return join(target, 'node_modules');
  const installing = join(programs, `.installing-${name}-${randomBytes(6).toString('hex')}`);
  await mkdir(installing, { recursive: true });
  try {
    const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', installing, ...requirements];
    await run('npm', args, { timeout: FETCH_LIMIT_MS });
    await rename(installing, target).catch((error: unknown) => {
      if (!existsSync(target)) throw error; // else another process was faster
    });
  } finally {
    await rm(installing, { recursive: true, force: true });
  }
  return join(target, 'node_modules');
}

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { userFolder } from '../../src/local/data-folder.js';

const run = promisify(execFile);
const FETCH_LIMIT_MS = 10 * 60_000;

/**
 * The folder, for PYTHONPATH, of a Python package with all that it needs: `requirement` as pip takes it, at one
 * version. Fetched through pip once and kept in the cache folder. Throws if Python or pip can't be had.
 */
export async function fetchPythonPackage(requirement: string): Promise<string> {
  const programs = join(userFolder(process.env, 'CACHE'), 'programs');
  const name = requirement.replace(/\[.*\]/, '').replace('==', '-');
  const target = join(programs, name);
  if (existsSync(target)) return target;
  await mkdir(programs, { recursive: true });
  const installing = join(programs, `.installing-${name}-${randomBytes(6).toString('hex')}`);
  try {
    await install(requirement, installing);
    await rename(installing, target).catch((error: unknown) => {
      if (!existsSync(target)) throw error; // else another process was faster
    });
  } finally {
    await rm(installing, { recursive: true, force: true });
  }
  return target;
}

async function install(requirement: string, target: string): Promise<void> {
  const args = ['-m', 'pip', 'install', '--no-input', '--quiet', '--target', target, requirement];
  // PIP_USER would contradict --target.
  const options = { env: { ...process.env, PIP_USER: '0' }, timeout: FETCH_LIMIT_MS };
  await run('python3', args, options).catch((error: { stderr?: string; message: string }) => {
    const words = error.stderr?.trim().split('\n').at(-1) || error.message;
    throw new Error(`This test needs python3 with pip, to install ${requirement}: ${words}`);
  });
}

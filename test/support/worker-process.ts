import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { AgentJobsError } from '../../src/contract/errors.js';
import type { Sandbox } from '../../src/testing.js';
import type { TestServer } from './dev-server.js';

/** The folder that `npm run build` makes. */
export const distFolder = fileURLToPath(new URL('../../dist', import.meta.url));

/** What leads a worker to a test's server, task queue and upstream. */
export const workerEnv = (
  { address, namespace, taskQueue }: Pick<TestServer, 'address' | 'namespace' | 'taskQueue'>,
  { url, apiKey }: Pick<Sandbox, 'url' | 'apiKey'>,
): Record<string, string> => ({
  UPSTREAM_BASE_URL: url,
  ADMIN_API_KEY: apiKey,
  AGENT_JOBS_TASK_QUEUE: taskQueue,
  TEMPORAL_ADDRESS: address,
  TEMPORAL_NAMESPACE: namespace,
});

/** A production worker in a process of its own. */
export interface WorkerProcess {
  pid: number;
  /** What it has written so far, standard output and error together. */
  output: () => string;
  /** Resolves once it has written the text. */
  wrote: (text: string) => Promise<void>;
  signal: (signal: NodeJS.Signals) => void;
  /** Settles when the process has ended, with its exit code, or null after a signal. */
  ended: Promise<number | null>;
  /** Kills it if it still runs. */
  kill: () => Promise<void>;
}

/** Starts `npm run worker`'s program, or that of another build, with these settings and no others. */
export function startWorkerProcess(env: Record<string, string>, dist = distFolder): WorkerProcess {
  const program = join(dist, 'worker.js');
  if (!existsSync(program)) throw new Error('run "npm run build" first');
  return startProgram([program], env);
}

/** Starts a program that Node runs, with these arguments and settings and no others. */
export function startProgram(args: readonly string[], env: Record<string, string>): WorkerProcess {
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return {
    pid: child.pid!,
    output: () => output,
    wrote: (text) =>
      until(
        () => output.includes(text),
        `the worker to write "${text}"`,
        () => output,
      ),
    signal: (signal) => void child.kill(signal),
    ended,
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/**
 * Resolves once the condition holds; throws after the limit with what was awaited. An error of ours that may pass,
 * such as that of a worker that is slow to start, counts as not yet.
 */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  context: () => string = () => '',
  limitMs = 120_000,
): Promise<void> {
  const startedAt = Date.now();
  const holdsYet = async () => {
    try {
      return await holds();
    } catch (error) {
      if (error instanceof AgentJobsError && error.retryable) return false;
      throw error;
    }
  };
  while (!(await holdsYet())) {
    const waitedMs = Date.now() - startedAt;
    if (waitedMs > limitMs) throw new Error(`waited in vain for ${what}\n${context()}`);
    await delay(Math.min(100 + waitedMs / 20, 500));
  }
}

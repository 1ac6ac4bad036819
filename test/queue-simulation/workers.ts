/** The simulation's workers: processes of their own, each before a door of its own to the upstream. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { distFolder, startProgram, type WorkerProcess } from '../support/worker-process.js';

/** Which program a worker runs: this build's production worker, or that of release 0.2.0 in a folder of its own. */
export type Program = 'this build' | { release: string };

const beside = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** Resolves once the worker takes work. One that `mayDie` keeps no workflow: its tasks would be lost with it. */
export async function startWorker(
  program: Program,
  env: Record<string, string>,
  { mayDie = false } = {},
): Promise<WorkerProcess> {
  const preload = mayDie ? ['--import', beside('no-sticky-tasks.mjs')] : [];
  const args =
    program === 'this build'
      ? [...preload, join(distFolder, 'worker.js')]
      : [beside('release-worker.mjs'), program.release, String(mayDie)];
  const worker = startProgram(args, env);
  await worker.wrote('The worker runs');
  return worker;
}

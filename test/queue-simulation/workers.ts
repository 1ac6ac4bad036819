/** The simulation's workers: processes of their own, each before a door of its own to the upstream. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { distFolder, startProgram, type WorkerProcess } from '../support/worker-process.js';

const NO_STICKY_TASKS = fileURLToPath(new URL('no-sticky-tasks.mjs', import.meta.url));

/** Resolves once the worker takes work. One that `mayDie` keeps no workflow: its tasks would be lost with it. */
export async function startWorker(env: Record<string, string>, { mayDie = false } = {}): Promise<WorkerProcess> {
  const preload = mayDie ? ['--import', NO_STICKY_TASKS] : [];
  const worker = startProgram([...preload, join(distFolder, 'worker.js')], env);
  await worker.wrote('The worker runs');
  return worker;
}

/** The surroundings of a measurement: a folder, an upstream and a Temporal server of its own. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ManagedProcess } from '../src/local/child-process.js';
import type { Bench, Contender } from './contender.js';
import { runJobs } from './jobs-run.js';
import type { Options } from './options.js';
import { drain } from './scenarios/jobs.js';
import { startTemporal } from './temporal.js';
import { startUpstream } from './upstream.js';

const STOP_GRACE_MS = 30_000;
/** Warms up compilers and connections. */
const WARM_UP_JOBS = 10;

/** Runs a function with a fresh folder, upstream and server, and removes them. */
export async function withBench(
  { budget }: Pick<Options, 'budget'>,
  run: (bench: Bench) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agent-jobs-bench-'));
  const upstream = await startUpstream(folder);
  try {
    const temporal = await startTemporal(folder);
    try {
      await run({ folder, temporal, upstream, budget });
    } finally {
      await temporal.stop();
    }
  } finally {
    await upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a function while a warm worker of the contender runs. */
export async function withWorker(
  bench: Bench,
  contender: Contender,
  run: (worker: ManagedProcess) => Promise<void>,
): Promise<void> {
  const worker = await contender.startWorker(bench);
  try {
    await runJobs(bench, contender, worker, drain({ n: WARM_UP_JOBS }));
    await run(worker);
  } finally {
    await worker.stop(STOP_GRACE_MS);
  }
}

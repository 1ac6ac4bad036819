/** Thousands of jobs open at once, mostly waiting: what they cost while nothing happens. */
import { setTimeout as pause } from 'node:timers/promises';
import { availableParallelism } from 'node:os';
import type { OwnedProcess } from '../../src/embedded/child-process.js';
import type { Bench, Contender, RunningJob } from '../contender.js';
import type { Figures } from '../figures.js';
import { cpuBetween, cpuUse } from '../jobs-run.js';
import { memoryMiB, watchMemory } from '../processes.js';

export interface CrowdWork {
  tag: string;
  n: number;
  /** How long they are watched once all are open. */
  lookMs: number;
}

const POLLING = { min: 60_000, max: 60_000, ratio: 0 };
const ACTIVE_MS = 24 * 3_600_000;
/** Calls under way at once. */
const AT_ONCE = 50;
/** The share of all cores up to which a server is comfortable. */
const COMFORTABLE = 0.8;

export async function runCrowd(
  bench: Bench,
  contender: Contender,
  worker: OwnedProcess,
  { tag, n, lookMs }: CrowdWork,
): Promise<Figures> {
  const { upstream } = bench;
  await upstream.control.setScript({ activeMs: ACTIVE_MS });
  const idle = await coresUsed(bench, worker, 5_000);
  const keys = Array.from({ length: n }, (_, i) => `${tag}-${i}`);
  const jobs = await eachAtOnce(keys, (key) => contender.start(bench, key, POLLING));
  try {
    await untilCreated(bench, n);
    // One whole round of waits, so that every job has been read in its own time.
    await pause(POLLING.max);
    await upstream.control.resetCounts();
    const peak = watchMemory([worker.pid], 2_000);
    const cores = await coresUsed(bench, worker, lookMs);
    const reads = (await upstream.requests()).get;
    const budget = COMFORTABLE * availableParallelism() - idle;
    return {
      'open jobs': n,
      'cores used': cores,
      'cores used before': idle,
      'reads per job and minute': reads / n / (lookMs / 60_000),
      'CPU ms per read': (1_000 * (cores - idle) * (lookMs / 1_000)) / reads,
      'jobs open at 80 % of the CPU (computed)': (n * budget) / (cores - idle),
      'worker peak memory MiB': peak(),
      'server memory MiB': memoryMiB(bench.temporal.pids),
    };
  } finally {
    await eachAtOnce(jobs, ({ workflowId }: RunningJob) =>
      bench.temporal.client.workflow.getHandle(workflowId).terminate('the bench has seen enough'),
    );
  }
}

async function coresUsed(bench: Bench, worker: OwnedProcess, lookMs: number): Promise<number> {
  const before = cpuUse(bench, worker);
  await pause(lookMs);
  return cpuBetween(before, cpuUse(bench, worker)).all / lookMs;
}

async function untilCreated({ upstream }: Bench, n: number): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if ((await upstream.requests()).create >= n) return;
    await pause(500);
  }
  throw new Error('not every job was created in 5 minutes');
}

async function eachAtOnce<T, R>(items: readonly T[], action: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.values();
  const lane = async () => {
    for (const item of queue) results.push(await action(item));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return results;
}

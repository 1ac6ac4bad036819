/** Thousands of jobs open at once, mostly waiting: their cost while nothing happens. */
import { setTimeout as pause } from 'node:timers/promises';
import { availableParallelism } from 'node:os';
import type { ManagedProcess } from '../src/local/child-process.js';
import type { Bench, Contender } from './contenders.js';
import { cpuBetween, cpuUse } from './jobs.js';
import type { Options } from './options.js';
import { memoryMiB, watchMemory } from './processes.js';
import { type Figures, type Recorder, uniqueTag } from './results.js';

interface Crowd {
  bench: Bench;
  contender: Contender;
  worker: ManagedProcess;
  options: Options;
  recorder: Recorder;
}

const POLLING = { min: 60_000, max: 60_000, ratio: 0 };
const ACTIVE_MS = 24 * 3_600_000;
/** Calls under way at once. */
const AT_ONCE = 50;
/** The share of all cores up to which a server is comfortable. */
const COMFORTABLE = 0.8;
/** Pause between the last create and the first measurement. */
const CALM_MS = 15_000;
const FITS = 'jobs open at 80 % of the CPU (computed)';

/**
 * Lets the crowd grow to each size in turn and measures it; leaves out a size that does not fit by what the size before
 * used.
 */
export async function runCrowd(crowd: Crowd): Promise<void> {
  const { bench, contender, worker, options, recorder } = crowd;
  await bench.upstream.control.setScript({ activeMs: ACTIVE_MS });
  await bench.upstream.countAnew();
  const idle = await coresUsed(bench, worker, 5_000);
  let open = 0;
  let fits = Infinity;
  for (const size of options.crowd) {
    if (size > fits) {
      console.error(`${contender.name}: ${size} open jobs are left out, ${Math.round(fits)} would fit`);
      break;
    }
    const name = { scenario: crowdOf(size), contender: contender.name, repetition: 1 };
    const figures = await recorder.run(name, () => lookAtSize(crowd, size - open, size, idle));
    open = size;
    fits = figures[FITS] ?? Infinity;
  }
}

function crowdOf(size: number): string {
  return `crowd of ${size.toLocaleString('en')} jobs`;
}

async function lookAtSize({ bench, contender, worker, options }: Crowd, more: number, size: number, idle: number) {
  const lookMs = 1_000 * options.look;
  const grownSince = Date.now();
  const keys = Array.from({ length: more }, () => uniqueTag('crowd'));
  await eachAtOnce(keys, (key) => contender.start(bench, key, POLLING));
  await untilCreated(bench, size);
  const grownMs = Date.now() - grownSince;
  await pause(CALM_MS);
  const pollsBefore = (await bench.upstream.requests()).get;
  const memoryAtFirst = memoryMiB([worker.pid]);
  const actionsBefore = await bench.temporal.actions();
  const peak = watchMemory([worker.pid], 2_000);
  const cores = await coresUsed(bench, worker, lookMs);
  const polls = (await bench.upstream.requests()).get - pollsBefore;
  const actions = (await bench.temporal.actions()) - actionsBefore;
  const budget = COMFORTABLE * availableParallelism() - idle;
  return {
    'open jobs': size,
    'cores used': cores,
    'share of all cores': cores / availableParallelism(),
    'cores used before': idle,
    'polls per job and minute': polls / size / (lookMs / 60_000),
    'billable actions per poll': actions / polls,
    'CPU ms per poll': ((cores - idle) * lookMs) / polls,
    [FITS]: cores > idle ? (size * budget) / (cores - idle) : null,
    'worker memory MiB, at first': memoryAtFirst,
    'worker memory MiB, at last': memoryMiB([worker.pid]),
    'worker peak memory MiB': peak(),
    'server memory MiB': memoryMiB(bench.temporal.pids),
    'seconds until all were open': grownMs / 1_000,
  } satisfies Figures;
}

async function coresUsed(bench: Bench, worker: ManagedProcess, lookMs: number): Promise<number> {
  const [before, startedAt] = [cpuUse(bench, worker), performance.now()];
  await pause(lookMs);
  return cpuBetween(before, cpuUse(bench, worker)).all / (performance.now() - startedAt);
}

async function untilCreated({ upstream }: Bench, n: number): Promise<void> {
  for (let tries = 0; tries < 1_800; tries++) {
    if ((await upstream.requests()).create >= n) return;
    await pause(1_000);
  }
  throw new Error('not every job was created in 30 minutes');
}

async function eachAtOnce<T>(items: readonly T[], action: (item: T) => Promise<unknown>): Promise<void> {
  const queue = items.values();
  const lane = async () => {
    for (const item of queue) await action(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

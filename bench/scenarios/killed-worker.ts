/** How late reads become when one of two workers is killed: the server must notice that its jobs are polled no more. */
import { setTimeout as pause } from 'node:timers/promises';
import type { ManagedProcess } from '../../src/local/child-process.js';
import type { RequestRecord } from '../../src/testing.js';
import type { Bench, Contender } from '../contender.js';
import { type Figures, uniqueTag } from '../figures.js';
import type { Options } from '../options.js';
import type { Recorder } from '../recorder.js';

/** Waits between reads, in seconds, and for how long after the kill the reads are watched. */
const CLASSES = [
  { waitS: 5, watchS: 120 },
  { waitS: 60, watchS: 360 },
];
const ACTIVE_MS = 24 * 3_600_000;
/** What the jitter of the plan, the ticks of a worker and the request itself may add to a wait. */
const TOLERANCE = 1.15;

/** Kills a worker that shares the jobs of each class with another one; both run before the jobs start. */
export async function runKilledWorker(
  bench: Bench,
  contender: Contender,
  { killed: jobs }: Options,
  recorder: Recorder,
): Promise<void> {
  await bench.upstream.control.setScript({ activeMs: ACTIVE_MS });
  for (const { waitS, watchS } of CLASSES) {
    const workers = await Promise.all([contender.startWorker(bench), contender.startWorker(bench)]);
    const name = { scenario: `killed worker, waits of ${waitS} s`, contender: contender.name, repetition: 1 };
    try {
      await recorder.run(name, () => killAndWatch(bench, contender, workers, { jobs, waitS, watchS }));
    } finally {
      for (const worker of workers) await worker.stop(30_000);
    }
  }
}

interface Watch {
  jobs: number;
  waitS: number;
  watchS: number;
}

async function killAndWatch(
  bench: Bench,
  contender: Contender,
  [killed]: ManagedProcess[],
  { jobs, waitS, watchS }: Watch,
): Promise<Figures> {
  const waitMs = waitS * 1_000;
  const since = Date.now();
  const polling = { min: waitMs, max: waitMs, ratio: 0 };
  const started = await Promise.all(
    Array.from({ length: jobs }, () => contender.start(bench, uniqueTag('killed'), polling)),
  );
  const reads = new Map<number, RequestRecord>();
  // Each is in the middle of its waits, held by the one worker or the other.
  await collectReads(bench, reads, 2 * waitMs);
  // SIGTERM would have it hand its jobs back.
  process.kill(killed!.pid, 'SIGKILL');
  const killedAt = Date.now();
  await collectReads(bench, reads, watchS * 1_000);
  const lateness = latenessAfter(readsByJob(reads, since), killedAt, waitMs);
  const handles = started.map(({ workflowId }) => bench.temporal.client.workflow.getHandle(workflowId));
  await Promise.all(handles.map((handle) => handle.terminate('the bench has seen enough')));
  const late = lateness.filter(({ seenAtS }) => seenAtS > 0);
  return {
    jobs,
    'jobs read late by more than a wait': late.length,
    'last such read, s after the kill': Math.max(0, ...late.map(({ seenAtS }) => seenAtS)),
    'jobs never read again': jobs - lateness.filter(({ isRead }) => isRead).length,
  };
}

/** The upstream keeps its last 1,000 requests alone: they are collected while time passes. */
async function collectReads({ upstream }: Bench, reads: Map<number, RequestRecord>, forMs: number): Promise<void> {
  for (const until = Date.now() + forMs; Date.now() < until;) {
    await pause(2_000);
    for (const request of await upstream.control.requests()) reads.set(request.number, request);
  }
}

/** Without those of the class before. */
function readsByJob(requests: ReadonlyMap<number, RequestRecord>, since: number): Map<string, number[]> {
  const reads = new Map<string, number[]>();
  for (const { operation, jobId, at } of requests.values()) {
    if (operation !== 'get' || jobId === null || Date.parse(at) < since) continue;
    reads.set(jobId, [...(reads.get(jobId) ?? []), Date.parse(at)]);
  }
  return reads;
}

/** A read is late by more than a wait where it comes later than two waits after the one before. */
function latenessAfter(reads: Map<string, number[]>, killedAt: number, waitMs: number) {
  return [...reads.values()].map((times) => {
    const late = times.filter((at, i) => at > killedAt && i > 0 && at - times[i - 1]! > 2 * waitMs * TOLERANCE);
    return { seenAtS: late.length === 0 ? 0 : (late.at(-1)! - killedAt) / 1_000, isRead: times.at(-1)! > killedAt };
  });
}

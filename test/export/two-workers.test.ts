/** The one budget of all exports, over worker processes. Time is skipped; the sandbox's clock follows the server's. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import type { VisitorExportRange } from '../../src/contract.js';
import { createTestWorker } from '../support/worker.js';
import { forkExportWorker, rangeOf, runExport, startExport, useSkippedTime, type WorkerSettings } from './export.js';

const HOUR_MS = 3_600_000;
const PER_HOUR = 10;
const ROWS = { rows: 1_300 }; // 7 requests
const DAYS = [
  ['2026-02-01', '2026-02-02'],
  ['2026-02-02', '2026-02-03'],
] as const;

/** The server's latest time that a worker has seen. */
let now: number;
let workers: { process: ChildProcess; sent: number[] }[] = [];
const tests = useSkippedTime(async (server) => {
  now = await server.currentTimeMs();
  return { visitors: ROWS, clock: () => now };
});
afterEach(async () => {
  await Promise.all(workers.map(({ process }) => killed(process)));
  workers = [];
});

test('two exports and a backfill over two processes make no more than their one budget in any hour', async () => {
  const { setUp } = tests;
  await setUp.sandbox.setRateLimits({ visitors: PER_HOUR, window: 'sliding' });
  await withProcesses([{}, {}], async () => {
    const both = [await startExport(setUp, rangeOf(setUp)), await startExport(setUp, another())];
    // This server skips time for one awaited result at a time.
    const results = [await backfill()];
    for (const handle of both) results.push(await handle.result());
    expect(results.flatMap(({ snapshots }) => snapshots)).toEqual(Array(4).fill(expect.objectContaining(complete)));
  });
  const sent = workers.flatMap((worker) => worker.sent);
  expect(sent).toHaveLength(4 * 7);
  expect(mostInAnHour(sent)).toBe(PER_HOUR);
  for (const worker of workers) expect(worker.sent).not.toEqual([]);
  expect((await setUp.sandbox.counts()).operations.visitors.responses).toEqual({ 200: 4 * 7 });
});

const complete = { ...ROWS, consistent: true };

/** Two days one after the other, as `export backfill` reads them. */
async function backfill() {
  const snapshots = [];
  for (const [dateFrom, dateTo] of DAYS) {
    const day = await runExport(tests.setUp, { ...rangeOf(tests.setUp, dateFrom, dateTo), priority: 4 });
    snapshots.push(...day.snapshots);
  }
  return { snapshots };
}

async function withProcesses(settings: Partial<WorkerSettings>[], work: () => Promise<void>): Promise<void> {
  const { nativeConnection: connection, namespace, taskQueue } = tests.setUp.server;
  const workflows = await createTestWorker({ connection, namespace, taskQueue, activities: {} });
  await workflows.runUntil(async () => {
    await Promise.all(settings.map(startWorker));
    await work();
  });
}

/** Starts a worker process, and waits until it is about to poll: time is skipped before a slow one would begin. */
async function startWorker(more: Partial<WorkerSettings>): Promise<void> {
  const process = forkExportWorker(tests.setUp, { requestsPerHour: String(PER_HOUR), tellsRequests: true, ...more });
  const sent: number[] = [];
  workers.push({ process, sent });
  await once(process, 'message');
  process.on('message', ({ at }: { at: number }) => {
    now = Math.max(now, at);
    sent.push(now);
    process.send('heard');
  });
}

async function killed(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const exited = once(process, 'exit');
  process.kill('SIGKILL');
  await exited;
}

/** The same days of a second project. */
function another(): VisitorExportRange {
  return { ...rangeOf(tests.setUp), projectId: `${tests.setUp.projectId}-2` };
}

/** The most requests within any hour: each hour that ends with a request. */
function mostInAnHour(sent: readonly number[]): number {
  return Math.max(...sent.map((at) => sent.filter((other) => other <= at && other > at - HOUR_MS).length));
}

/** The one budget of all exports: time is skipped, and the sandbox's clock follows the server's. */
import { once } from 'node:events';
import { Client } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { Worker } from '@temporalio/worker';
import { beforeEach, expect, test } from 'vitest';
import { createExportActivities } from '../../src/activities/visitor-export/export-activities.js';
import {
  exportTaskQueue,
  requestQueueId,
  requestQueueStateQuery,
  requestTurnSignal,
  visitorExportProgressQuery,
  type VisitorExportRange,
  type VisitorExportRangeInput,
  type VisitorExportResult,
} from '../../src/contract.js';
import { startClock } from '../../src/temporal/activity-attempt.js';
import { failedTasks } from '../support/failed-tasks.js';
import { createTestWorker, createWorker } from '../support/worker.js';
import {
  ALL_EXPORTS,
  durationOf,
  failureOfRun,
  forkExportWorker,
  rangeOf,
  startExport,
  until,
  useSkippedTime,
  visitorRequests,
  withWorkers,
  type ExportSetUp,
} from './export.js';

let environment: TestWorkflowEnvironment;
let setUp: ExportSetUp;
/** When each request was sent, in milliseconds of the server's clock, and for which project. */
let sent: { at: number; projectId: string }[];
/** The latest time of the server that an activity has seen. */
let now: number;
const HOUR_MS = 3_600_000;
const ROWS = { rows: 2_600 }; // 12 requests

const tests = useSkippedTime(async (server) => {
  now = await server.currentTimeMs();
  return { visitors: ROWS, clock: () => now };
});
beforeEach(() => {
  ({ setUp, environment } = tests);
  sent = [];
  const { getVisitors } = setUp.upstream;
  setUp.upstream.getVisitors = (request, options) => {
    now = Math.max(now, startClock().server());
    sent.push({ at: now, projectId: request.projectId });
    return getVisitors(request, options);
  };
});

test.each(['sliding', 'fixed'] as const)(
  'two exports at once make no more than their one budget in any hour (%s window), and both go on',
  async (window) => {
    await setUp.sandbox.setRateLimits({ visitors: 10, window });
    const [one, two] = [rangeOf(setUp), another()];
    await withWorkers(setUp, () => exportAll([one, two]), { requestsPerHour: 10 });
    expect(await refusals()).toBe(0);
    expect(sent).toHaveLength(2 * 12);
    expect(mostInAnHour()).toBeLessThanOrEqual(10);
    // Each asked for its place, and waited for longer than a workflow task may take.
    expect(failedTasks((await queue().fetchHistory()).events)).toEqual([]);
    // From the middle of the hour's budget on, the turns are of the scan that began first.
    const ofOther = sent.slice(0, 10).filter(({ projectId }) => projectId !== setUp.projectId).length;
    expect(Math.max(ofOther, 10 - ofOther)).toBeGreaterThanOrEqual(7);
  },
);

test('of two scans that each need the budget of an hour, one ends in the first hour', async () => {
  await setUp.sandbox.setVisitors({ rows: 260 });
  await withWorkers(
    setUp,
    async () => {
      const first = await startExport(setUp, rangeOf(setUp));
      await until(async () => sent.length > 0);
      const second = await startExport(setUp, another());
      for (const handle of [first, second]) await handle.result();
    },
    { requestsPerHour: 3 },
  );
  const isOfFirst = sent.map(({ projectId }) => projectId === setUp.projectId);
  expect(isOfFirst).toEqual([true, true, true, false, false, false]);
});

test.each(['none', 'seconds'] as const)(
  'without a set budget exports that are answered 429 share what the upstream takes (Retry-After: %s)',
  async (retryAfter) => {
    await setUp.sandbox.setRateLimits({ visitors: 15, retryAfter });
    const [one, two] = [rangeOf(setUp), another()];
    const startedAt = now;
    await withWorkers(setUp, () => exportAll([one, two]));
    const hours = Math.ceil((now - startedAt) / HOUR_MS);
    expect(await refusals()).toBeLessThanOrEqual(16 * hours);
  },
);

test('the export of higher priority goes first, even if another asked before', async () => {
  const [low, high] = [rangeOf(setUp), another()];
  await setUp.sandbox.setVisitors({ rows: 500 }); // 4 requests
  await withWorkers(setUp, () => exportAll([{ ...low, priority: 4 }, high]), { requestsPerHour: 1 });
  const last = sent.findLastIndex(({ projectId }) => projectId !== setUp.projectId);
  // But for what was given before the other one asked.
  expect(last).toBeLessThanOrEqual(4);
  expect(sent).toHaveLength(2 * 4);
});

test('an export that waits says for what, at which position and until when', async () => {
  const range = rangeOf(setUp);
  await withWorkers(
    setUp,
    async () => {
      const handle = await startExport(setUp, range);
      await until(async () => sent.length === 3);
      await until(async () => (await handle.query(visitorExportProgressQuery)).position !== undefined);
      const { position, waitReason, nextRequestAt, pages } = await handle.query(visitorExportProgressQuery);
      expect({ position, pages }).toEqual({ position: 1, pages: 3 });
      expect(waitReason).toContain('the budget that all exports share (position 1');
      const waitMs = Date.parse(nextRequestAt!) - sent[0]!.at;
      expect(waitMs).toBeGreaterThanOrEqual(HOUR_MS);
      expect(waitMs).toBeLessThan(1.1 * HOUR_MS);
      await handle.result();
    },
    { requestsPerHour: 3 },
  );
});

test('a queue that is terminated delays the exports that wait, and stops none', async () => {
  const [one, two] = [rangeOf(setUp), another()];
  await withWorkers(
    setUp,
    async () => {
      const exports = await Promise.all([startExport(setUp, one), startExport(setUp, two)]);
      await untilAllWait(exports);
      await queue().terminate();
      for (const handle of exports) expect((await handle.result()).snapshots[0]).toMatchObject(ROWS);
    },
    { requestsPerHour: 10 },
  );
  expect(sent).toHaveLength(2 * 12);
  for (const range of [one, two]) expect(await durationOf(setUp, range)).toBeLessThan(6 * HOUR_MS);
});

test('an export that is cancelled while it waits leaves its place to the others', async () => {
  const [one, two] = [rangeOf(setUp), another()];
  await withWorkers(
    setUp,
    async () => {
      const [first, second] = await Promise.all([startExport(setUp, one), startExport(setUp, two)]);
      await untilAllWait([first, second]);
      await first.cancel();
      await failureOfRun(first.result());
      await second.result();
    },
    { requestsPerHour: 4 },
  );
  expect(sent.filter(({ projectId }) => projectId !== setUp.projectId)).toHaveLength(12);
  expect(mostInAnHour()).toBeLessThanOrEqual(4);
  // The second hour has four again: the turn of the one that is gone was not lost.
  expect(sent[7]!.at - sent[4]!.at).toBeLessThan(HOUR_MS / 2);
});

test('an export that is cancelled while it reads gives back no turn: its requests were made', async () => {
  await setUp.sandbox.addFault({ kind: 'hang', operation: 'visitors' });
  await withWorkers(
    setUp,
    async () => {
      const handle = await startExport(setUp, rangeOf(setUp));
      await until(async () => (await visitorRequests(setUp)) >= 1);
      await handle.cancel();
      await failureOfRun(handle.result());
    },
    { requestsPerHour: 24 },
  );
  const reports = (await signalsOfQueue()).filter((signal) => signal.includes('"outcome"'));
  expect(reports).toEqual([expect.stringContaining('"outcome":"accepted","requests":1')]);
});

test('a chunk whose worker is killed has spent its whole turn', async () => {
  await setUp.sandbox.setVisitors({ rows: 500 }); // 4 requests
  await setUp.sandbox.addFault({ kind: 'hang', operation: 'visitors' });
  const { nativeConnection: connection, taskQueue, namespace } = setUp.server;
  const workflows = await createTestWorker({ connection, namespace, taskQueue, activities: {} });
  await workflows.runUntil(async () => {
    const doomed = forkExportWorker(setUp, { requestsPerHour: '24' }); // two requests a turn
    const handle = await startExport(setUp, rangeOf(setUp));
    await until(async () => (await visitorRequests(setUp)) >= 1);
    const exited = once(doomed, 'exit');
    doomed.kill('SIGKILL');
    await exited;
    const exports = await exportWorker(24);
    await exports.runUntil(async () => {
      // In small steps, and without a wait that skips: before the worker begins, and once the export has ended, nothing
      // is under way but the queue, and the server would skip its hours.
      const isOpen = async () => (await handle.describe()).status.name === 'RUNNING';
      for (let steps = 0; (await isOpen()) && steps < 40; steps++) await environment.sleep('10 seconds');
      const { workflow } = new Client({ connection: environment.connection, namespace });
      const { snapshots } = (await workflow.getHandle(handle.workflowId).result()) as VisitorExportResult;
      expect(snapshots[0]).toMatchObject({ rows: 500, consistent: true });
    });
    await environment.sleep('5 minutes');
    expect(await queue().query(requestQueueStateQuery)).toMatchObject({ spentLastHour: 2 + 4, inFlight: 0 });
  });
  expect(await visitorRequests(setUp)).toBe(1 + 4);
});

test('a turn that comes to no worker in time is given back unused, and another one is asked for', async () => {
  await setUp.sandbox.setVisitors({ rows: 500 }); // 4 requests
  const { nativeConnection: connection, taskQueue, namespace } = setUp.server;
  const workflows = await createTestWorker({ connection, namespace, taskQueue, activities: {} });
  await workflows.runUntil(async () => {
    const handle = await startExport(setUp, rangeOf(setUp));
    const first = await exportWorker(1);
    await first.runUntil(async () => {
      await until(async () => (await handle.query(visitorExportProgressQuery)).position === 1);
      await until(async () => sent.length >= 1);
    });
    // A worker must take it within half of that time.
    const soon = (await environment.currentTimeMs()) + 6_000;
    await handle.signal(requestTurnSignal, { operation: 'visitors', id: 'of nobody:1', until: soon, requests: 1 });
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    const second = await exportWorker(1);
    await second.runUntil(async () => handle.result());
  });
  expect(sent).toHaveLength(4);
  expect(mostInAnHour()).toBe(1);
  const given = expect.stringContaining('"report":{"turn":"of nobody:1","outcome":"unsent"') as string;
  expect(await signalsOfQueue()).toContainEqual(given);
});

test('an export without a budget and without a 429 asks no queue', async () => {
  const runOfQueue = () =>
    queue()
      .describe()
      .then(
        ({ runId }) => runId,
        () => null,
      );
  const before = await runOfQueue();
  await withWorkers(setUp, () => exportAll([rangeOf(setUp)]));
  expect(await runOfQueue()).toBe(before);
});

async function exportWorker(requestsPerHour: number): Promise<Worker> {
  const { server, store, upstream } = setUp;
  const { nativeConnection: connection, namespace, taskQueue } = server;
  const shutdownSignal = new AbortController().signal;
  const activities = createExportActivities({ store, upstream, shutdownSignal, requestsPerHour });
  return createWorker({ connection, namespace, taskQueue: exportTaskQueue(taskQueue), activities });
}

/** The same days of a second project. */
function another(): VisitorExportRange {
  return { ...rangeOf(setUp), projectId: `${setUp.projectId}-2` };
}

async function exportAll(inputs: VisitorExportRangeInput[]): Promise<void> {
  const handles = [];
  for (const input of inputs) handles.push(await startExport(setUp, input));
  // Time is skipped for one awaited result at a time.
  for (const handle of handles) await handle.result();
}

/** What the queue was told, as JSON. */
async function signalsOfQueue(): Promise<string[]> {
  const { events } = await queue().fetchHistory();
  const signals = events!.flatMap((event) => event.workflowExecutionSignaledEventAttributes?.input?.payloads ?? []);
  return signals.map(({ data }) => Buffer.from(data!).toString());
}

function queue() {
  return setUp.server.client.workflow.getHandle(requestQueueId(ALL_EXPORTS));
}

/**
 * All of them wait, and nothing is on its way. The server stops skipping time if a workflow ends in the middle of a
 * task, or cancels an activity whose result is just being taken.
 */
async function untilAllWait(exports: Awaited<ReturnType<typeof startExport>>[]): Promise<void> {
  await until(async () => {
    const progress = await Promise.all(exports.map((handle) => handle.query(visitorExportProgressQuery)));
    const state = await queue()
      .query(requestQueueStateQuery)
      .catch(() => null);
    const areWaiting = progress.every(({ position }) => position !== undefined);
    return areWaiting && state?.waitingCount === exports.length && state.inFlight === 0;
  });
}

async function refusals(): Promise<number> {
  return (await setUp.sandbox.counts()).operations.visitors.responses['429'] ?? 0;
}

/** The most requests within any hour: each hour that ends with a request. */
function mostInAnHour(): number {
  return Math.max(...sent.map(({ at }) => sent.filter((other) => other.at <= at && other.at > at - HOUR_MS).length));
}

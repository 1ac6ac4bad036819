import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { createExportActivities } from '../../src/activities/visitor-export/export-activities.js';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  SEARCH_ATTRIBUTE,
  VISITOR_EXPORT_WORKFLOW,
  visitorExportWorkflowId,
  type VisitorExportInput,
  type VisitorExportResult,
} from '../../src/contract.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import {
  durationOf,
  exportWorker,
  failureOfRun,
  rangeOf,
  runExport,
  topFolders,
  until,
  useSkippedTime,
  visitorRequests,
  withWorkers,
  workflowWorker,
  type ExportSetUp,
} from './export.js';

let setUp: ExportSetUp;
const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);
const DATETIME = 6; // temporal.api.enums.v1.IndexedValueType
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const tests = useSkippedTime(() => ({ visitors: { rows: 2_600 } }));
beforeEach(async () => {
  setUp = tests.setUp;
  // This server has no Schedules, so it does not know their attribute.
  await tests.environment.connection.operatorService.addSearchAttributes({
    namespace: setUp.server.namespace,
    searchAttributes: { TemporalScheduledStartTime: DATETIME },
  });
});

test('the 24 hours go on over a worker that stops while it asks', async () => {
  const asked = 5 + 12; // half of what a day takes
  const busy = { kind: 'status', status: 429, retryAfter: 3_600, operation: 'visitors', nth: 5 } as const;
  // A rule counts the requests that no rule before it has struck.
  await setUp.sandbox.addFault({ ...busy, count: asked - 5 });
  await setUp.sandbox.addFault({ kind: 'hang', operation: 'visitors', nth: 5 });
  await setUp.sandbox.addFault({ ...busy, count: 100_000 });
  const range = rangeOf(setUp);
  const workflows = await workflowWorker(setUp.server);
  const exports = ({ signal }: AbortController) =>
    exportWorker(setUp.server, createExportActivities({ ...setUp, shutdownSignal: signal }), {
      shutdownGraceTime: '10 seconds',
      // It polls for nothing while it reads: the server would give what it polled for to a worker that is gone.
      maxConcurrentActivityTaskExecutions: 1,
    });
  const { type } = await workflows.runUntil(async () => {
    const stopping = new AbortController();
    const first = await exports(stopping);
    const draining = first.run();
    const failure = failureOfRun(runExport(setUp, range)); // time is skipped while it is awaited
    await until(async () => (await visitorRequests(setUp)) >= asked);
    stopping.abort();
    first.shutdown();
    await draining;
    const second = await exports(new AbortController());
    return second.runUntil(failure);
  });
  const ms = await durationOf(setUp, range);
  expect(type).toBe('UpstreamUnavailable');
  expect(ms).toBeGreaterThanOrEqual(24 * HOUR_MS);
  expect(ms).toBeLessThan(25 * HOUR_MS);
});

test('a store that refuses for ten minutes fails the run as SnapshotStoreFailed, without a page request', async () => {
  await writeFile(join(setUp.root, 'staging'), 'in the way');
  const range = rangeOf(setUp);
  const result = await withWorkers(setUp, () => failureOfRun(runExport(setUp, range)));
  const ms = await durationOf(setUp, range);
  expect(result.type).toBe('SnapshotStoreFailed');
  expect(result.details).toEqual([{ operation: expect.any(String), error: expect.stringMatching(/ENOTDIR|EEXIST/) }]);
  expect(ms).toBeGreaterThanOrEqual(10 * MINUTE_MS);
  expect(ms).toBeLessThan(15 * MINUTE_MS);
});

test('an unforeseen error is retried within the budget, and fails the run as ExportFailed after 24 hours', async () => {
  let requests = 0;
  const getVisitors = async () => {
    requests++;
    throw new TypeError('the page is too odd');
  };
  const range = rangeOf(setUp);
  const upstream = { ...setUp.upstream, getVisitors };
  const overrides = { requestsPerHour: 2, upstream };
  const { type, message } = await withWorkers(setUp, () => failureOfRun(runExport(setUp, range)), overrides);
  const ms = await durationOf(setUp, range);
  expect([type, message]).toEqual(['ExportFailed', expect.stringContaining('the page is too odd')]);
  expect(ms).toBeGreaterThanOrEqual(24 * HOUR_MS);
  expect(ms).toBeLessThan(25 * HOUR_MS);
  expect(requests).toBeLessThanOrEqual(25 * 2);
  expect(await topFolders(setUp)).toEqual([]);
});

test('a final day that lost most of its rows is read again an hour later, and believed where that agrees', async () => {
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, async () => {
    await runExport(setUp, range);
    await setUp.sandbox.setVisitors({ rows: 300 });
    return runExport(setUp, range);
  });
  expect(snapshots[0]).toMatchObject({ rows: 300, consistent: true, unchanged: false });
  expect(await durationOf(setUp, range)).toBeGreaterThanOrEqual(HOUR_MS);
  expect(await topFolders(setUp)).toEqual(['superseded', 'visitors']);
});

test('at most three days of a scheduled run are read a second time, and the others are marked at once', async () => {
  await setUp.sandbox.setVisitors({ rows: 0, totals: { human: 900_000, ai: 7, total: 900_007 } });
  const result = await withWorkers(setUp, () => scheduledRun(5));
  expect(result.snapshots).toHaveLength(5);
  expect(result.snapshots.map(({ drift }) => drift?.kind)).toEqual(Array(5).fill('impossible'));
  expect(await visitorRequests(setUp)).toBe(3 * 4 + 2 * 2);
  const ms = await durationOfScheduledRun();
  expect(ms).toBeGreaterThanOrEqual(3 * HOUR_MS);
  expect(ms).toBeLessThan(4 * HOUR_MS);
});

const serverNow = () => tests.environment.currentTimeMs();

/** The upstream, which can't be read for a day before a moment. */
const without = (dateFrom: string, until: number): Upstream => ({
  ...setUp.upstream,
  getVisitors: async (request, options) => {
    if (request.dateFrom === dateFrom && (await serverNow()) < until) throw new ReadFailedError('no page', 500);
    return setUp.upstream.getVisitors(request, options);
  },
});

test('a day that can not be read holds no other day back, is marked while it waits, and comes in the end', async () => {
  const upstream = without('2026-01-07', (await serverNow()) + 4 * HOUR_MS);
  const { snapshots } = await withWorkers(setUp, () => scheduledRun(3), { upstream });
  expect(snapshots.map(({ dateFrom }) => dateFrom)).toEqual(['2026-01-08', '2026-01-09', '2026-01-07']);
  const writer = visitorExportWorkflowId(setUp.projectId, '2026-01-07', '2026-01-08');
  const { events } = await setUp.server.client.workflow.getHandle(writer).fetchHistory();
  const marks = events!.flatMap(({ upsertWorkflowSearchAttributesEventAttributes: upsert }) => {
    const value = upsert?.searchAttributes?.indexedFields?.[SEARCH_ATTRIBUTE.waitingFor];
    return value ? [String(value.data)] : [];
  });
  expect(marks).toEqual(['"upstream"', expect.anything()]);
});

test('the budget holds over a day that fails: the next one waits for it', async () => {
  await setUp.sandbox.addFault({ kind: 'status', status: 404, operation: 'visitors', count: 4 });
  const failed = await withWorkers(setUp, () => failureOfRun(scheduledRun(2)), { requestsPerHour: 1 });
  expect(failed).toMatchObject({ type: 'ExportRejected', details: [{ failed: [{}, {}] }] });
  expect(await visitorRequests(setUp)).toBe(4);
  expect(await durationOfScheduledRun()).toBeGreaterThanOrEqual(HOUR_MS);
});

/** Exports some days as a Schedule would: this server has none. */
function scheduledRun(days: number): Promise<VisitorExportResult> {
  const { projectId, server } = setUp;
  return server.client.workflow.execute<(input: VisitorExportInput) => Promise<VisitorExportResult>>(
    VISITOR_EXPORT_WORKFLOW,
    {
      taskQueue: server.taskQueue,
      workflowId: `scheduled-${projectId}`,
      args: [{ projectId, timeZone: 'UTC', days }],
      typedSearchAttributes: [{ key: SCHEDULED_AT, value: new Date('2026-01-10T04:30:00Z') }],
    },
  );
}

async function durationOfScheduledRun(): Promise<number> {
  const handle = setUp.server.client.workflow.getHandle(`scheduled-${setUp.projectId}`);
  const { startTime, closeTime } = await handle.describe();
  return closeTime!.getTime() - startTime.getTime();
}

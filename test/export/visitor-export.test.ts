import { randomUUID } from 'node:crypto';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { visitorExportWorkflowId } from '../../src/contract.js';
import { reportKey } from '../../src/exports/snapshots/layout.js';
import { RejectedError } from '../../src/upstream/errors.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import {
  failureOfRun,
  publishedManifest,
  publishedRows,
  rangeOf,
  runExport,
  startExport,
  startScheduledRun,
  topFolders,
  until,
  useExport,
  visitorRequests,
  withWorkers,
} from './export.js';

const setUp = useExport({ visitors: { rows: 2_600 } }, connectOwnNamespace);

const requests = () => visitorRequests(setUp);

test('an explicit range becomes one snapshot that holds exactly the rows of the upstream', async () => {
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  const truth = await setUp.sandbox.expectedSnapshot(range);
  expect(snapshots).toHaveLength(1);
  expect(snapshots[0]).toMatchObject({ ...range, rows: 2_600, files: 1, consistent: true, provisional: false });
  expect(snapshots[0]?.totals).toEqual(truth.totals);
  expect(await publishedRows(setUp, range)).toEqual(truth.entries);
  expect(await publishedManifest(setUp, range)).toMatchObject({ snapshotId: snapshots[0]?.snapshotId, rows: 2_600 });
  expect(await topFolders(setUp)).toEqual(['visitors']);
});

test('the same content again is unchanged, and each page is asked for once, the first one twice', async () => {
  const range = rangeOf(setUp);
  await withWorkers(setUp, async () => {
    const [first] = (await runExport(setUp, range)).snapshots;
    expect(await requests()).toBe(12);
    expect((await runExport(setUp, range)).snapshots).toEqual([{ ...first, unchanged: true }]);
  });
});

test('100,000 rows take at most 50 history events, and no row is among them', async () => {
  await setUp.sandbox.setVisitors({ rows: 100_000 });
  const range = rangeOf(setUp);
  const history = await withWorkers(setUp, async () => {
    const handle = await startExport(setUp, range);
    expect((await handle.result()).snapshots[0]).toMatchObject({ rows: 100_000, consistent: true });
    return handle.fetchHistory();
  });
  expect(history.events?.length).toBeLessThanOrEqual(50);
  expect(Buffer.from(JSON.stringify(history)).toString()).not.toContain('/docs/');
  expect(JSON.stringify(history).length).toBeLessThan(100_000);
});

test('a run under any other id writes through the date range’s own workflow', async () => {
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range, `mine-${randomUUID()}`));
  expect(snapshots[0]).toMatchObject({ rows: 2_600, unchanged: false });
  const writer = setUp.server.client.workflow.getHandle(
    visitorExportWorkflowId(range.projectId, '2026-01-01', '2026-01-02'),
  );
  expect((await writer.describe()).status.name).toBe('COMPLETED');
});

test('of two runs of one date range the second waits its turn, and both end well', async () => {
  await setUp.sandbox.addFault({ kind: 'delay', delayMs: 1_500, operation: 'visitors', nth: 3 });
  const range = rangeOf(setUp);
  const results = await withWorkers(setUp, () =>
    Promise.all([
      runExport(setUp, range, `one-${randomUUID()}`),
      runExport(setUp, range, `two-${randomUUID()}`),
      runExport(setUp, range),
    ]),
  );
  const receipts = results.map(({ snapshots }) => snapshots[0]);
  expect(receipts.filter((receipt) => receipt?.unchanged === false)).toHaveLength(1);
  expect(new Set(receipts.map((receipt) => receipt?.snapshotId)).size).toBe(1);
  expect(await requests()).toBe(36);
});

test('wrong input fails as InvalidInput that names the field, and nothing is asked of the upstream', async () => {
  const { projectId } = setUp;
  await withWorkers(setUp, async () => {
    const wrong = [
      [{ projectId, dateFrom: '2026-01-02', dateTo: '2026-01-02' }, 'dateTo'],
      [{ projectId: '..', dateFrom: '2026-01-01', dateTo: '2026-01-02' }, 'projectId'],
      [{ projectId, timeZone: 'UTC' }, 'timeZone'],
      ['nonsense', 'input'],
    ] as const;
    for (const [input, field] of wrong) {
      const failure = await failureOfRun(runExport(setUp, input as never, randomUUID()));
      expect(failure.type).toBe('InvalidInput');
      expect(failure.message).toContain(field);
    }
  });
  expect(await requests()).toBe(0);
});

test('a project id such as ../x stays inside the folder', async () => {
  const range = { ...rangeOf(setUp), projectId: '../x' };
  await withWorkers(setUp, () => runExport(setUp, range, randomUUID()));
  expect(await readdir(join(setUp.root, 'visitors'))).toEqual(['projectId=..%2Fx']);
  expect(await publishedRows(setUp, range)).toHaveLength(2_600);
});

test('an export cancelled within a chunk sweeps only after the chunk, so that no row is staged behind it', async () => {
  await setUp.sandbox.addFault({ kind: 'delay', delayMs: 1_500, operation: 'visitors', nth: 5 });
  const { events } = await withWorkers(setUp, async () => {
    const handle = await startExport(setUp, rangeOf(setUp));
    await until(async () => (await requests()) >= 5);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    expect((await handle.describe()).status.name).toBe('CANCELLED');
    return handle.fetchHistory();
  });
  const scheduled = (name: string) =>
    events?.find((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === name)?.eventId;
  const ended = events?.find((event) => {
    const end = event.activityTaskCompletedEventAttributes ?? event.activityTaskCanceledEventAttributes;
    return String(end?.scheduledEventId) === String(scheduled('readChunk'));
  });
  expect(Number(ended?.eventId)).toBeLessThan(Number(scheduled('cleanUpExport')));
  expect(await topFolders(setUp)).toEqual([]);
});

test('days that earlier runs missed are made up for, the newest first, and one that fails stops none', async () => {
  const now = Math.floor(Date.now() / 60_000) * 60_000;
  const day = (before: number) => new Date(now - before * 86_400_000).toISOString().slice(0, 10);
  const upstream: Upstream = {
    ...setUp.upstream,
    getVisitors: async (request, options) => {
      if (request.dateFrom === day(6)) throw new RejectedError('no such day', 404, '');
      return setUp.upstream.getVisitors(request, options);
    },
  };
  const dates = await withWorkers(
    setUp,
    async () => {
      for (const before of [8, 3])
        await runExport(setUp, { ...rangeOf(setUp), dateFrom: day(before), dateTo: day(before - 1) });
      const { snapshots } = await (
        await startScheduledRun(setUp, { timeZone: 'UTC', days: 1 }, new Date(now))
      ).result();
      return snapshots.map(({ dateFrom }) => dateFrom);
    },
    { upstream },
  );
  expect(dates).toEqual([1, 2, 4, 5, 7].map(day));
});

test('a day whose own run is cancelled fails alone, and the other days are exported', async () => {
  await setUp.sandbox.addFault({ kind: 'status', status: 503, operation: 'visitors', retryAfter: 1_000 });
  const { type, details } = await withWorkers(setUp, async () => {
    const scheduled = await startScheduledRun(setUp);
    await until(async () => (await requests()) >= 1);
    const writerId = visitorExportWorkflowId(setUp.projectId, '2026-03-08', '2026-03-09');
    await setUp.server.client.workflow.getHandle(writerId).cancel();
    return failureOfRun(scheduled.result());
  });
  expect(type).toBe('CancelledFailure');
  expect(details).toMatchObject([
    { snapshots: [{ dateFrom: '2026-03-09', rows: 2_600 }], failed: [{ dateFrom: '2026-03-08', type }] },
  ]);
});

test('a scheduled run that is cancelled ends Canceled, and no further day is begun', async () => {
  await setUp.sandbox.addFault({ kind: 'status', status: 429, operation: 'visitors', retryAfter: 1_000 });
  await withWorkers(setUp, async () => {
    const scheduled = await startScheduledRun(setUp);
    await until(async () => (await requests()) >= 1);
    await scheduled.cancel();
    await expect(scheduled.result()).rejects.toThrow();
    expect((await scheduled.describe()).status.name).toBe('CANCELLED');
  });
  expect(await requests()).toBe(1);
});

test('a store that refuses the report for a moment costs no report', async () => {
  const inTheWay = join(setUp.root, 'reports');
  await writeFile(inTheWay, 'in the way');
  await withWorkers(setUp, async () => {
    const scheduled = await startScheduledRun(setUp);
    await until(async () => {
      const { pendingActivities } = (await scheduled.describe()).raw;
      return (
        pendingActivities?.some(
          ({ activityType, attempt }) => activityType?.name === 'writeReport' && attempt! >= 2,
        ) === true
      );
    });
    await rm(inTheWay);
    expect((await scheduled.result()).snapshots).toHaveLength(2);
  });
  expect(String(await setUp.store.read(reportKey(setUp.projectId)))).toContain('2026-03-09');
});

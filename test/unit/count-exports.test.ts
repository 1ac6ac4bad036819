import { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { noMetrics } from '../support/no-metrics.js';
import { countExports, type ExportActivities } from '../../src/activities/visitor-export/export-activities.js';

function counted(publishSnapshot: () => Promise<object>) {
  const seen: string[] = [];
  const count = (text: string) => void seen.push(text);
  const metrics = {
    ...noMetrics,
    snapshotPublished: count,
    malformedRows: (rows: number) => count(`${rows} left out`),
    exportFailed: count,
  };
  const activities = { publishSnapshot, cleanUpExport: publishSnapshot } as unknown as ExportActivities;
  const made = countExports(activities, metrics) as unknown as Record<string, (input: object) => Promise<object>>;
  return { seen, publish: made['publishSnapshot']!, cleanUp: made['cleanUpExport']! };
}

test.each([
  ['consistent', { consistent: true }],
  ['kept', { consistent: true, unchanged: true, drift: { kind: 'totals', offset: 0 } }],
  ['inconsistent', { consistent: false, drift: { kind: 'overlap', offset: 0 } }],
])('a publication counts as %s, and its receipt is handed on', async (verdict, receipt) => {
  const { seen, publish } = counted(async () => receipt);
  expect(await publish({})).toEqual(receipt);
  expect(seen).toEqual([verdict]);
});

test('rows that were left out count apart', async () => {
  const drift = { kind: 'malformedRows', offset: 0, count: 3 };
  const { seen, publish } = counted(async () => ({ consistent: false, drift }));
  await publish({});
  expect(seen).toEqual(['inconsistent', '3 left out']);
});

test('a failed step counts by its type, and a cancelled one does not', async () => {
  const failure = ApplicationFailure.nonRetryable('no space', 'SnapshotStoreFailed');
  const failed = counted(() => Promise.reject(failure));
  await expect(failed.cleanUp({})).rejects.toBe(failure);
  expect(failed.seen).toEqual(['SnapshotStoreFailed']);
  const cancelled = counted(() => Promise.reject(new Error('cancelled')));
  await expect(cancelled.publish({})).rejects.toThrow('cancelled');
  expect(cancelled.seen).toEqual([]);
});

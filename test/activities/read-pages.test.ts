import { expect, test } from 'vitest';
import { readPages } from '../../src/activities/visitor-export/read-pages.js';
import { PathSet, Scan } from '../../src/exports/snapshots/scan.js';
import { NEW_SCAN } from '../../src/exports/scan-checkpoint.js';
import { pageAt, rows } from '../snapshots/pages.js';

test('a page of as many rows as its bytes hold is taken', async () => {
  const all = rows(180_000); // of 8 MiB, which the client reads at most
  const never = new AbortController().signal;
  const chunk = await readPages(
    { getVisitors: ({ offset }) => Promise.resolve(pageAt(all, offset, all.length)) },
    { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02' },
    new Scan(NEW_SCAN, new PathSet()),
    { requests: 1, duration: 60_000, willRepeat: false, stop: never, cancel: never },
  );
  expect(chunk.interruption).toBeNull();
  expect(chunk.rows).toHaveLength(all.length);
});

import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { FaultRule } from '../../src/testing.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import {
  failureOfRun,
  publishedRows,
  rangeOf,
  runExport,
  setUpExport,
  startExport,
  topFolders,
  until,
  visitorRequests,
  withWorkers,
  type ExportSetUp,
} from './export.js';

let server: TestServer;
let setUp: ExportSetUp;
const ROWS = 2_000;

beforeAll(async () => {
  server = await connectDevServer();
});
afterAll(() => server.close());
beforeEach(async () => {
  setUp = await setUpExport(server, { visitors: { rows: ROWS } });
});
afterEach(() => setUp.close());

/** Exports, and gives what was published beside what the upstream holds. */
async function exportWhole() {
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  const { entries } = await setUp.sandbox.truth(range);
  return { receipt: snapshots[0], rows: await publishedRows(setUp, range), entries };
}

const passing: FaultRule[] = [
  { kind: 'status', status: 500 },
  { kind: 'status', status: 503, count: 3 },
  { kind: 'status', status: 408 },
  { kind: 'status', status: 429, retryAfter: 1 },
  { kind: 'reset' },
  { kind: 'reset', at: 'response' },
  { kind: 'truncated' },
  { kind: 'malformed' },
  { kind: 'empty' },
  { kind: 'html' },
  { kind: 'redirect' },
  { kind: 'oversized' },
];

test.each(passing)(
  'a page that fails once ($kind) is asked for again, and no row is missing or doubled: %j',
  async (rule) => {
    await setUp.sandbox.addFault({ nth: 4, ...rule, operation: 'visitors' } as FaultRule);
    const { receipt, rows, entries } = await exportWhole();
    expect(receipt).toMatchObject({ rows: ROWS, consistent: true });
    expect(rows).toEqual(entries);
    expect((await setUp.sandbox.counts()).trapVisits).toBe(0);
  },
);

test('pages that fail at random are ridden out', async () => {
  for (const kind of ['reset', 'truncated', 'malformed'] as const) {
    await setUp.sandbox.addFault({ kind, operation: 'visitors', probability: 0.15, seed: 7 });
  }
  const { receipt, rows, entries } = await exportWhole();
  expect(receipt).toMatchObject({ rows: ROWS, consistent: true });
  expect(rows).toEqual(entries);
});

test.each(['null', 'huge'] as const)(
  'counts that are %s make the page malformed, and it is asked for again',
  async (kind) => {
    await setUp.sandbox.setVisitors({ rows: ROWS, oddCounts: { kind, every: 700 } });
    await withWorkers(setUp, async () => {
      const handle = await startExport(setUp, rangeOf(setUp));
      await until(async () => (await visitorRequests(setUp)) >= 4);
      await setUp.sandbox.setVisitors({ rows: ROWS });
      expect((await handle.result()).snapshots[0]).toMatchObject({ rows: ROWS, consistent: true });
    });
  },
);

test.each([400, 401, 403, 404, 422])(
  'a %i fails the run as ExportRejected with the upstream’s text',
  async (status) => {
    const body = { error: 'no such project', details: [{ message: 'more' }] };
    await setUp.sandbox.addFault({ kind: 'status', status, body, operation: 'visitors', nth: 3, count: 9 });
    const failure = await withWorkers(setUp, () => failureOfRun(runExport(setUp, rangeOf(setUp))));
    expect(failure.type).toBe('ExportRejected');
    expect(failure.details).toEqual([{ status, error: expect.stringContaining('no such project') }]);
    expect(await topFolders(setUp)).toEqual([]);
  },
);

test('a folder that refuses holds the export up, and once it takes writes the export goes on', async () => {
  const staging = join(setUp.root, 'staging');
  await writeFile(staging, 'in the way');
  await withWorkers(setUp, async () => {
    const handle = await startExport(setUp, rangeOf(setUp));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect((await handle.describe()).status.name).toBe('RUNNING');
    await rm(staging);
    expect((await handle.result()).snapshots[0]).toMatchObject({ rows: ROWS, consistent: true });
  });
});

test.runIf(existsSync('/dev/full'))(
  'a disk that fills up while publishing leaves the old snapshot, and room brings the new one',
  async () => {
    const range = rangeOf(setUp);
    await withWorkers(setUp, async () => {
      await runExport(setUp, range);
      const before = await publishedRows(setUp, range);
      await setUp.sandbox.setVisitors({ rows: 500 });
      // The device answers every write as a full disk does; the parquet is written through it.
      await setUp.sandbox.addFault({ kind: 'delay', delayMs: 1_500, operation: 'visitors' });
      const handle = await startExport(setUp, range);
      const folder = `staging/visitors/projectId=${range.projectId}/dateFrom=${range.dateFrom}/dateTo=${range.dateTo}`;
      const part = join(setUp.root, folder, 'visitors.parquet.part');
      await until(async () => (await visitorRequests(setUp)) > 10);
      await mkdir(join(setUp.root, folder), { recursive: true });
      await symlink('/dev/full', part);
      await until(async () => !existsSync(part));
      expect(await publishedRows(setUp, range)).toEqual(before);
      expect((await handle.result()).snapshots[0]).toMatchObject({ rows: 500, consistent: true, unchanged: false });
    });
    expect(await publishedRows(setUp, range)).toHaveLength(500);
    expect(await topFolders(setUp)).toEqual(['visitors']);
  },
);

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import {
  publishedManifest,
  publishedRows,
  rangeOf,
  runExport,
  setUpExport,
  topFolders,
  withWorkers,
  type ExportSetUp,
} from './export.js';

let server: TestServer;
let setUp: ExportSetUp;

beforeAll(async () => {
  server = await connectDevServer();
});
afterAll(() => server.close());
beforeEach(async () => {
  setUp = await setUpExport(server, { visitors: { rows: 2_600 } });
});
afterEach(() => setUp.close());

test('an explicit range becomes one snapshot that holds exactly the rows of the upstream', async () => {
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  const truth = await setUp.sandbox.truth(range);
  expect(snapshots).toHaveLength(1);
  expect(snapshots[0]).toMatchObject({ ...range, rows: 2_600, files: 1, consistent: true, provisional: false });
  expect(snapshots[0]?.totals).toEqual(truth.totals);
  expect(await publishedRows(setUp, range)).toEqual(truth.entries);
  expect(await publishedManifest(setUp, range)).toMatchObject({ snapshotId: snapshots[0]?.snapshotId, rows: 2_600 });
  expect(await topFolders(setUp)).toEqual(['visitors']);
});

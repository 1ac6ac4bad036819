import { expect, test } from 'vitest';
import { webUiViews } from '../../src/client/web-ui.js';
import { visitorExportWorkflowId } from '../../src/contract.js';
import {
  distorted,
  moving,
  publishedManifest,
  publishedRows,
  rangeOf,
  runExport,
  useExport,
  visitorRequests,
  withWorkers,
} from './export.js';

const ROWS = 1_000;

const setUp = useExport({ visitors: { rows: ROWS } });

test.each(['swap', 'totals'] as const)(
  'a scan that meets a %s once is repeated, and the next one is believed',
  async (kind) => {
    const range = rangeOf(setUp);
    const { upstream, visitors } = await moving(setUp, range, { kind, atOffset: 500 });
    const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
    expect(snapshots[0]).toMatchObject({ consistent: true });
    expect(await publishedRows(setUp, range)).toEqual(visitors.edited().rows);
  },
);

test('a row that is not as the interface says is left out, in one scan, and the next page is read on', async () => {
  const range = rangeOf(setUp);
  const { entries } = await setUp.sandbox.expectedSnapshot(range);
  const odd = entries[249]!.path;
  const upstream = distorted(setUp.upstream, (page) => ({
    ...page,
    visitors: page.visitors.map((row) =>
      'path' in row && row.path === odd ? { malformed: { path: odd }, field: 'ai', fault: 'is not a number' } : row,
    ),
  }));
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  const drift = { kind: 'malformedRows', offset: 249, count: 1, field: 'ai is not a number', path: odd };
  expect(snapshots[0]).toMatchObject({ rows: ROWS - 1, consistent: false, drift });
  expect(await publishedRows(setUp, range)).toEqual(entries.filter(({ path }) => path !== odd));
  expect(await visitorRequests(setUp)).toBe(6);
});

test('data that never stop moving are read three times, then published as inconsistent', async () => {
  const range = rangeOf(setUp);
  const { upstream } = await moving(setUp, range, { kind: 'swap', times: Infinity });
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  expect(snapshots[0]).toMatchObject({ consistent: false, drift: { kind: 'overlap' } });
  expect(await publishedManifest(setUp, range)).toMatchObject({ consistent: false, drift: { kind: 'overlap' } });
  const pages = 5;
  expect(await visitorRequests(setUp)).toBe(3 * pages);
});

test('an export is listed as in doubt while its last publication is, and its result is the same', async () => {
  const { client } = setUp.server;
  const range = rangeOf(setUp);
  const workflowId = visitorExportWorkflowId(range.projectId, range.dateFrom, range.dateTo);
  const { query } = webUiViews({ url: 'http://ui', namespace: 'default' }).find(({ title }) =>
    title.startsWith('exports'),
  )!;
  const listed = async () => (await client.workflow.count(`(${query}) AND WorkflowId = '${workflowId}'`)).count;
  const { upstream } = await moving(setUp, range, { kind: 'swap', times: Infinity });
  await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  await expect.poll(listed).toBe(1);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  expect(snapshots[0]).toMatchObject({ consistent: true });
  await expect.poll(async () => (await client.workflow.count(`WorkflowId = '${workflowId}'`)).count).toBe(2);
  expect(await listed()).toBe(1); // the earlier run alone
});

test('a long scan that was inconsistent early is aborted after 100 pages, since it will be repeated', async () => {
  await setUp.sandbox.setVisitors({ rows: 50_000 });
  const range = rangeOf(setUp);
  const { upstream } = await moving(setUp, range, { kind: 'swap' });
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  expect(snapshots[0]).toMatchObject({ rows: 50_000, consistent: true });
  const [given, whole] = [100, 201 + 1];
  expect(await visitorRequests(setUp)).toBe(given + whole);
});

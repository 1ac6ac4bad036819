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

test('data that never stop moving are read three times, then published as inconsistent', async () => {
  const range = rangeOf(setUp);
  const { upstream } = await moving(setUp, range, { kind: 'swap', times: Infinity });
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  expect(snapshots[0]).toMatchObject({ consistent: false, drift: { kind: 'overlap' } });
  expect(await publishedManifest(setUp, range)).toMatchObject({ consistent: false, drift: { kind: 'overlap' } });
  const pages = 5;
  expect(await visitorRequests(setUp)).toBe(3 * pages);
});

test('a consistent snapshot outlives a run in which the data never stop moving', async () => {
  const range = rangeOf(setUp);
  const [kept] = (await withWorkers(setUp, () => runExport(setUp, range))).snapshots;
  const { upstream } = await moving(setUp, range, { kind: 'totals', times: Infinity });
  const [again] = (await withWorkers(setUp, () => runExport(setUp, range), { upstream })).snapshots;
  expect(again).toEqual({ ...kept, unchanged: true, drift: { kind: 'totals', offset: 249 } });
  expect((await publishedManifest(setUp, range)).consistent).toBe(true);
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

test('rows that change places with each request are never taken for consistent', async () => {
  const range = rangeOf(setUp);
  const { upstream } = await moving(setUp, range, { kind: 'shuffle', atOffset: 0, times: Infinity });
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  expect(snapshots[0]?.consistent).toBe(false);
  const paths = (await publishedRows(setUp, range)).map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
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

test.each([
  ['empty', []],
  ['repeated', [{ path: '/', human: 1, ai: 0, total: 1 }]],
])('an upstream that promises more for ever (%s pages) is left', async (_, more) => {
  const range = rangeOf(setUp);
  const upstream = distorted(setUp.upstream, ({ totals, visitors }, { offset }) => ({
    ...{ totals, hasMore: true },
    visitors: offset < ROWS ? visitors : more,
  }));
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  expect(snapshots[0]).toMatchObject({ consistent: false });
  expect(await visitorRequests(setUp)).toBeLessThan(60);
});

test('pages that leave rows out, and whose offsets count them, are read to the end', async () => {
  const isShown = ({ path }: { path: string }) => path.length % 2 === 0;
  const upstream = distorted(setUp.upstream, (page) => ({ ...page, visitors: page.visitors.filter(isShown) }));
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  const { entries } = await setUp.sandbox.expectedSnapshot(range);
  const shown = entries.filter(isShown);
  expect(shown.length).toBeGreaterThan(100);
  expect(shown.length).toBeLessThan(ROWS - 100);
  expect(snapshots[0]).toMatchObject({ rows: shown.length, consistent: true });
  expect(await publishedRows(setUp, range)).toEqual(shown);
  // The first short page is followed in vain, and the first page is read again.
  expect(await visitorRequests(setUp)).toBeLessThanOrEqual(5 + 2);
});

test('pages that are shorter than asked for, by a limit of the upstream’s own, are read to the end', async () => {
  const upstream = distorted(setUp.upstream, ({ totals, visitors, hasMore }) => ({
    ...{ totals, visitors: visitors.slice(0, 100) },
    hasMore: hasMore || visitors.length > 100,
  }));
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range), { upstream });
  expect(snapshots[0]).toMatchObject({ rows: ROWS, consistent: true });
  expect(await publishedRows(setUp, range)).toEqual((await setUp.sandbox.expectedSnapshot(range)).entries);
});

test('an empty page that claims more is inconsistent, and the next scan is believed', async () => {
  let left = 1;
  const upstream = distorted(setUp.upstream, (page, { offset }) =>
    offset >= 400 && left-- > 0 ? { ...page, visitors: [], hasMore: true } : page,
  );
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, rangeOf(setUp)), { upstream });
  expect(snapshots[0]).toMatchObject({ rows: ROWS, consistent: true });
});

test('a path that comes twice is kept once', async () => {
  const range = rangeOf(setUp);
  const { entries, totals } = await setUp.sandbox.expectedSnapshot(range);
  await setUp.sandbox.setVisitors({
    entries: entries.with(600, { ...entries[600]!, path: entries[599]!.path }),
    totals,
  });
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  expect(snapshots[0]).toMatchObject({
    rows: ROWS - 1,
    consistent: false,
    drift: { kind: 'repeatedPath', offset: 600 },
  });
});

test('counts that are not whole are rounded, and the manifest says so', async () => {
  await setUp.sandbox.setVisitors({ entries: [{ path: '/', human: 12.5, ai: 1, total: 20 }] });
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  expect(snapshots[0]).toMatchObject({ rows: 1, consistent: true });
  expect((await publishedManifest(setUp, range)).rounded).toBe(true);
  expect(await publishedRows(setUp, range)).toEqual([{ path: '/', human: 13, ai: 1, total: 20 }]);
});

test('a date range that is not over everywhere is provisional, until a later scan clears it', async () => {
  const today = new Date().toISOString().slice(0, 10);
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  const range = rangeOf(setUp, today, tomorrow);
  await setUp.sandbox.setVisitors({
    entries: [{ path: '/', human: 1, ai: 0, total: 1 }],
    totals: { human: 1, ai: 0, total: 1 },
  });
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  expect(snapshots[0]).toMatchObject({ provisional: true });
});

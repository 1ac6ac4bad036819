import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SnapshotManifest, SnapshotReceipt } from '../../src/contract.js';
import { manifestKey, intentKey, supersededFolder } from '../../src/exports/snapshots/layout.js';
import { encodeManifest } from '../../src/exports/snapshots/manifest.js';
import { finishPublication, publishScan } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { removeExpired, StaleStagingError } from '../../src/exports/snapshots/staging.js';
import { exportRows, RANGE, readScan, row, rows, type Telling } from './pages.js';
import { parquetPath } from './published.js';
import { ignoringCase, manifestIn, useStore } from './test-store.js';

let root: string;
let store: SnapshotStore;

useStore((made) => ({ root, store } = made));

const inRoot = (key: string) => join(root, ...key.split('/'));
const at = (day: number, time = '13:00') => `2026-01-${String(day).padStart(2, '0')}T${time}:00.000Z`;
const NONE = { human: 0, ai: 0, total: 0 };
const manifest = () => manifestIn(store);

/** One run a call, each a day after the one before. */
async function dailyRuns(...told: (Telling & { count: number })[]): Promise<SnapshotReceipt[]> {
  const receipts: SnapshotReceipt[] = [];
  for (const [i, { count, ...telling }] of told.entries()) {
    const more = { runId: `run-of-day-${i}`, exportedAt: at(2 + i), ...telling };
    receipts.push(await exportRows(store, () => rows(count), more));
  }
  return receipts;
}

test.each<[string, number, Telling['totals']]>([
  ['no rows but visitors', 0, { human: 3, ai: 0, total: 3 }],
  ['fewer visits over all rows than visitors of the site', 100, { human: 9_000, ai: 450, total: 9_400 }],
  ['fewer AI visits than AI visitors', 100, { human: 120, ai: 9_000, total: 130 }],
  ['one row larger than the site', 100, { human: 4, ai: 3, total: 5 }],
])('%s are inconsistent as impossible, and replace no day that can be', async (_, count, totals) => {
  expect(await exportRows(store, () => rows(count), { totals: totals! })).toMatchObject({
    consistent: false,
    drift: { kind: 'impossible' },
  });
  const [good, again] = await dailyRuns(
    { count: 200, exportedAt: at(4) },
    { count, totals: totals!, exportedAt: at(5) },
  );
  expect(good).toMatchObject({ consistent: true, rows: 200 });
  expect(again).toEqual({ ...good, unchanged: true, drift: { kind: 'impossible', offset: count } });
  expect(await manifest()).toMatchObject({ consistent: true, rows: 200 });
});

test('what approximate counts can explain is no contradiction', async () => {
  const sum = rows(100).reduce((all, { total }) => all + total, 0);
  const [nearly] = await dailyRuns({ count: 100, totals: { human: 900, ai: 300, total: Math.floor(sum * 1.08) } });
  expect(nearly).toMatchObject({ consistent: true });
  const range = { ...RANGE, projectId: 'tiny' };
  const tiny = await exportRows(store, () => [{ path: '/', human: 4, ai: 0, total: 4 }], {
    range,
    totals: { human: 3, ai: 0, total: 3 },
  });
  expect(tiny).toMatchObject({ consistent: true });
});

test('an empty 200 over a final day of 20,000 rows replaces nothing', async () => {
  const kept = await exportRows(store, () => rows(20_000), { limit: 250, exportedAt: at(2) });
  const again = await exportRows(store, () => [], { totals: NONE, exportedAt: at(3), runId: 'run-2' });
  expect(again).toEqual({ ...kept, unchanged: true, drift: { kind: 'shrunk', offset: 0 } });
  expect(await readdir(root)).toEqual(['visitors']);
});

test('a day that lost most rows is believed if a scan an hour later agrees, and what it replaced is kept', async () => {
  const [kept] = await dailyRuns({ count: 200 });
  const suspect = { rows: 40, exportedAt: at(3, '13:00') };
  const early = { exportedAt: at(3, '13:59'), runId: 'run-2', suspect };
  expect((await exportRows(store, () => rows(40), early)).drift).toEqual({ kind: 'shrunk', offset: 40 });
  const otherwise = { exportedAt: at(3, '14:00'), runId: 'run-3', suspect: { ...suspect, rows: 70 } };
  expect((await exportRows(store, () => rows(40), otherwise)).drift).toEqual({ kind: 'shrunk', offset: 40 });
  const later = { exportedAt: at(3, '14:00'), runId: 'run-4', suspect };
  expect(await exportRows(store, () => rows(40), later)).toMatchObject({
    rows: 40,
    consistent: true,
    unchanged: false,
  });
  const folder = supersededFolder(RANGE, kept!.snapshotId);
  const before = JSON.parse(await readFile(inRoot(`${folder}/manifest.json`), 'utf8')) as SnapshotManifest;
  expect(before).toMatchObject({ snapshotId: kept!.snapshotId, rows: 200, supersededAt: later.exportedAt });
  expect((await readFile(inRoot(`${folder}/${before.files[0]?.name}`))).length).toBe(before.files[0]?.bytes);
});

test('what was replaced is removed after thirty days, and the newer stays', async () => {
  await dailyRuns({ count: 100 }, { count: 110 }, { count: 120, exportedAt: at(20) });
  const listed = async () => (await readdir(inRoot(supersededFolder(RANGE)))).length;
  expect(await listed()).toBe(2);
  expect(await removeExpired(store, Date.parse('2026-02-02T13:00:00Z'), RANGE.projectId)).toEqual([]);
  expect(await removeExpired(store, Date.parse('2026-02-02T13:00:01Z'), RANGE.projectId)).toHaveLength(1);
  expect(await listed()).toBe(1);
  expect(await removeExpired(store, Date.parse('2026-03-02T00:00:00Z'), RANGE.projectId)).toHaveLength(1);
  expect(await readdir(root)).toEqual(['visitors']);
});

test('a snapshot with one flipped byte is exported anew, though the content is the same', async () => {
  const [kept] = await dailyRuns({ count: 50 });
  const file = parquetPath(root, RANGE);
  const whole = await readFile(file);
  const flipped = Buffer.from(whole);
  flipped[100]! ^= 1;
  await writeFile(file, flipped);
  const again = await exportRows(store, () => rows(50), { exportedAt: at(3), runId: 'run-2' });
  expect(again).toEqual({ ...kept, unchanged: false });
  expect((await readFile(parquetPath(root, RANGE))).equals(whole)).toBe(true);
  expect(await readdir(root)).toEqual(['visitors']);
});

test('a damaged snapshot gives way even to a scan that is not consistent', async () => {
  await dailyRuns({ count: 50 });
  await rm(parquetPath(root, RANGE));
  const moving = (request: number) => (request === 1 ? [row(5_000), ...rows(50)] : rows(50));
  const again = await exportRows(store, moving, { exportedAt: at(3), runId: 'run-2' });
  expect(again).toMatchObject({ consistent: false, unchanged: false });
});

test('a publication whose answer was lost gives the same answer again, and does not confirm itself', async () => {
  await dailyRuns({ count: 200 });
  await rm(parquetPath(root, RANGE));
  const checkpoint = await readScan(store, () => rows(40), { runId: 'run-2' });
  const finished = { range: RANGE, runId: 'run-2', scan: 1, checkpoint, inconsistency: null, exportedAt: at(3) };
  const first = await publishScan(store, finished);
  expect(first).toMatchObject({ consistent: false, unchanged: false, drift: { kind: 'shrunk', offset: 40 } });
  // The worker may have died after it had removed the staged rows, or before.
  expect(await publishScan(store, finished)).toEqual(first);
  await readScan(store, () => rows(40), { runId: 'run-2' });
  expect(await publishScan(store, finished)).toEqual(first);
  expect(await manifest()).toMatchObject({ consistent: false });
});

test('a scan without rows whose staging was swept meanwhile is not published', async () => {
  const checkpoint = await readScan(store, () => [], { runId: 'old' });
  await store.removeFolder('staging');
  const old = { range: RANGE, runId: 'old', scan: 1, checkpoint, inconsistency: null, exportedAt: at(2) };
  await expect(publishScan(store, old)).rejects.toBeInstanceOf(StaleStagingError);
});

test('a scan with rows that began before the published one replaces nothing, even with its rows staged', async () => {
  const checkpoint = await readScan(store, () => rows(40), { runId: 'old' });
  const kept = await exportRows(store, () => rows(60), {
    exportedAt: at(3),
    runId: 'new',
  });
  await readScan(store, () => rows(40), { runId: 'old' });
  const old = { range: RANGE, runId: 'old', scan: 1, checkpoint, inconsistency: null, exportedAt: at(2) };
  expect(await publishScan(store, old)).toEqual({ ...kept, unchanged: true });
  expect(await manifest()).toMatchObject({ rows: 60 });
});

test('an older publication that was left half-done does not take the place of a newer one', async () => {
  await exportRows(store, () => [], { exportedAt: at(2), runId: 'old' });
  const older = { ...(await manifest()), totals: NONE };
  await exportRows(store, () => [], { exportedAt: at(4), runId: 'new', totals: NONE });
  const newest = { ...(await manifest()), exportedAt: at(4) };
  await store.put(manifestKey(RANGE), encodeManifest(newest));
  await store.put(intentKey(RANGE), encodeManifest(older));
  await finishPublication(store, RANGE);
  expect(await manifest()).toMatchObject({ exportedAt: at(4) });
});

test('a provisional snapshot, however consistent, gives way to a scan over the finished day that is not', async () => {
  const moving = (request: number) => (request === 1 ? [row(5_000), ...rows(50)] : rows(50));
  await dailyRuns({ count: 45, exportedAt: at(2, '04:30') });
  const during = await exportRows(store, moving, { exportedAt: at(2, '05:30'), runId: 'run-2' });
  expect(during).toMatchObject({ consistent: true, provisional: true, rows: 45, unchanged: true });
  const final = await exportRows(store, moving, { exportedAt: at(3), runId: 'run-3' });
  expect(final).toMatchObject({ consistent: false, provisional: false, unchanged: false });
  expect(await manifest()).toMatchObject({ consistent: false, provisional: false });
});

test('what is not believed and has lost most of its rows replaces not even a provisional snapshot', async () => {
  const [kept] = await dailyRuns({ count: 100, exportedAt: at(2, '04:30') });
  const empty = await exportRows(store, () => [], {
    exportedAt: at(3),
    runId: 'run-2',
    totals: { human: 9, ai: 0, total: 9 },
  });
  expect(empty).toEqual({ ...kept, unchanged: true, drift: { kind: 'impossible', offset: 0 } });
});

test('on a disk that folds case, a project that differs in case alone is refused and the other untouched', async () => {
  const folding = ignoringCase(store);
  await exportRows(folding, () => rows(20), { range: { ...RANGE, projectId: 'Shop' } });
  const other = exportRows(folding, () => rows(30), { range: { ...RANGE, projectId: 'shop' } });
  await expect(other).rejects.toThrow(/does not keep the projects Shop and shop apart/);
});

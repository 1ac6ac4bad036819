import { cp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { daysOf, withDamage } from '../../src/exports/snapshots/catalog.js';
import { manifestKey, intentKey, snapshotFolder, supersededFolder } from '../../src/exports/snapshots/layout.js';
import { encodeManifest, parseManifest } from '../../src/exports/snapshots/manifest.js';
import { publishScan } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { removeExpired, StaleStagingError } from '../../src/exports/snapshots/staging.js';
import { exportRows, RANGE, readScan, rows } from './pages.js';
import { parquetPath } from './published.js';
import { changed, manifestIn, useStore } from './test-store.js';

let root: string;
let store: SnapshotStore;

useStore((made) => ({ root, store } = made));

const FIRST = '2026-01-02T13:00:00.000Z';
const NEXT = '2026-01-03T13:00:00.000Z';
const inRoot = (key: string) => join(root, ...key.split('/'));
const manifestText = () => readFile(inRoot(manifestKey(RANGE)), 'utf8');
const manifest = () => manifestIn(store);

/** Every path below the root. */
const everything = () => readdir(root, { recursive: true });

test('a manifest with one changed digit is a damaged day, which gaps lists and the next run repairs', async () => {
  await exportRows(store, () => rows(50), { exportedAt: FIRST });
  const text = (await manifestText()).replace('"exportedAt": "2026', '"exportedAt": "2926');
  await writeFile(inRoot(manifestKey(RANGE)), text);
  const changed = parseManifest(Buffer.from(text))!;
  const [day] = await withDamage(store, daysOf([changed], RANGE.dateFrom, RANGE.dateTo));
  expect(day?.state).toBe('damaged');
  const again = await exportRows(store, () => rows(50), { exportedAt: NEXT, runId: 'run-2' });
  expect(again).toMatchObject({ consistent: true, unchanged: false, rows: 50 });
  expect(await manifest()).toMatchObject({ exportedAt: NEXT });
});

test('a Parquet file that the manifest does not name is damage: a glob reads it too', async () => {
  await exportRows(store, () => rows(50));
  const days = daysOf([await manifest()], RANGE.dateFrom, RANGE.dateTo);
  const copy = inRoot(`${snapshotFolder(RANGE)}/copy.parquet`);
  await cp(parquetPath(root, RANGE), copy);
  expect(await withDamage(store, days)).toMatchObject([{ state: 'damaged' }]);
  await rm(copy);
  await symlink(inRoot('gone'), copy); // listed, and there is none
  expect(await withDamage(store, days)).toEqual(days);
});

test('a verdict that was changed by hand keeps no scan out', async () => {
  await exportRows(store, () => rows(50), { exportedAt: FIRST, totals: { human: 9_000, ai: 9, total: 9_000 } });
  const { drift: _, ...told } = await manifest();
  await writeFile(inRoot(manifestKey(RANGE)), JSON.stringify({ ...told, consistent: true }));
  const totals = { human: 9_000, ai: 9, total: 9_001 };
  const again = await exportRows(store, () => rows(50), { exportedAt: NEXT, runId: 'run-2', totals });
  expect(again).toMatchObject({ consistent: false, unchanged: false });
});

test.each([
  { snapshotId: '../../../../visitors/projectId=planted/dateFrom=2026-01-01/dateTo=2026-01-02/x' },
  { snapshotId: 'a\0b' },
  { files: [{ name: '..', rows: 1, bytes: 4_096, sha256: '' }] },
  { files: [{ name: 'a\0b', rows: 1, bytes: 1, sha256: '' }] },
  { files: [{ name: `${'x'.repeat(300)}.parquet`, rows: 1, bytes: 1, sha256: '' }] },
])('a foreign manifest that names what no export would (%o) is none, and the day is exported', async (fields) => {
  await exportRows(store, () => rows(50), { exportedAt: FIRST });
  const kept = await manifest();
  await writeFile(inRoot(manifestKey(RANGE)), encodeManifest({ ...kept, ...fields }));
  const again = await exportRows(store, () => rows(60), { exportedAt: NEXT, runId: 'run-2' });
  expect(again).toMatchObject({ rows: 60, unchanged: false });
  expect((await everything()).filter((path) => path.includes('planted'))).toEqual([]);
});

test('a copy that a killed run left without its manifest is removed with the date range’s next run', async () => {
  await exportRows(store, () => rows(50), { exportedAt: FIRST });
  const half = `${supersededFolder(RANGE, 'a'.repeat(64))}/visitors.parquet`;
  await store.put(half, Buffer.from('half'));
  await exportRows(store, () => rows(50), { exportedAt: NEXT, runId: 'run-2' });
  expect(await store.size(half)).toBeNull();
});

test('a foreign manifest beside the copies of what was replaced takes none of them along', async () => {
  await exportRows(store, () => rows(50), { exportedAt: FIRST });
  await exportRows(store, () => rows(60), { exportedAt: NEXT, runId: 'run-2' });
  const foreign = Buffer.from(JSON.stringify({ supersededAt: '2020-01-01T00:00:00.000Z' }));
  await store.put('superseded/projectId=p1/manifest.json', foreign);
  await removeExpired(store, Date.parse(NEXT), 'p1');
  expect(await readdir(inRoot(supersededFolder(RANGE)))).toHaveLength(1);
});

test('what a scan of weeks replaced is kept for thirty days from then on', async () => {
  await exportRows(store, () => rows(50), { exportedAt: FIRST });
  const checkpoint = await readScan(store, () => rows(60), { runId: 'slow' });
  const slow = { range: RANGE, runId: 'slow', scan: 1, checkpoint, inconsistency: null, exportedAt: NEXT };
  const weeksLater = Date.parse('2026-02-05T00:00:00Z');
  await publishScan(
    store,
    slow,
    () => {},
    () => weeksLater,
  );
  expect(await removeExpired(store, weeksLater + 29 * 86_400_000, 'p1')).toEqual([]);
  expect(await removeExpired(store, weeksLater + 31 * 86_400_000, 'p1')).toHaveLength(1);
});

test('an attempt that wakes in its last writes after the run’s second scan was published changes nothing', async () => {
  const first = { range: RANGE, runId: 'run-1', scan: 1, inconsistency: null, exportedAt: FIRST };
  const checkpoint = await readScan(store, () => rows(60), { runId: 'run-1' });
  const stalling = changed(store, 'put', async (real, args) => {
    if (args[0] === intentKey(RANGE)) {
      const scan = 2;
      const second = await readScan(store, () => [...rows(60), ...rows(1, 900)], { runId: 'run-1', scan });
      await publishScan(store, { ...first, scan, checkpoint: second, exportedAt: '2026-01-02T15:00:00.000Z' });
    }
    await real(...args);
  });
  await expect(publishScan(stalling, { ...first, checkpoint })).rejects.toBeInstanceOf(StaleStagingError);
  expect(await manifest()).toMatchObject({ rows: 61, exportedAt: '2026-01-02T15:00:00.000Z' });
});

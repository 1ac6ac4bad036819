import { createHash } from 'node:crypto';
import { cp, open, readFile, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DuckDBInstance } from '@duckdb/node-api';
import { parquetReadObjects } from 'hyparquet';
import { expect, test } from 'vitest';
import type { SnapshotManifest } from '../../src/contract.js';
import { chunkKey, manifestKey, parquetName, snapshotFolder } from '../../src/exports/snapshots/layout.js';
import { daysOf, findSnapshots, withDamage } from '../../src/exports/snapshots/catalog.js';
import { verifySnapshot } from '../../src/exports/snapshots/verify.js';
import { finishPublication, publishScan } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { StaleStagingError } from '../../src/exports/snapshots/staging.js';
import { exportRows, RANGE, readScan, row, rows, type Row, type Telling } from './pages.js';
import { parquetPath } from './published.js';
import { after, changed, dyingAt, manifestIn, useStore } from './test-store.js';

let root: string;
let store: SnapshotStore;
const DURING = '2026-01-02T11:59:59.999Z';
const FINAL = '2026-01-02T12:00:00.000Z';
const LATER = '2026-01-03T12:00:00.000Z';

useStore((made) => ({ root, store } = made));

const inRoot = (key: string) => join(root, ...key.split('/'));
const published = () => manifestIn(store);
const parquet = () => readFile(parquetPath(root, RANGE));

async function parquetRows(): Promise<Record<string, unknown>[]> {
  const bytes = await parquet();
  return parquetReadObjects({ file: new Uint8Array(bytes).buffer });
}

/** What an analyst's glob gives, over all snapshots. */
async function globRows(): Promise<Row[]> {
  const connection = await (await DuckDBInstance.create()).connect();
  try {
    const sql = `select path, human, ai, total from read_parquet('${root}/visitors/**/*.parquet')`;
    const found = (await connection.runAndReadAll(sql)).getRowObjects();
    return found.map(({ path, human, ai, total }) => ({
      path: String(path),
      human: Number(human),
      ai: Number(ai),
      total: Number(total),
    }));
  } finally {
    connection.closeSync();
  }
}

test('a snapshot of many chunks is one parquet file that DuckDB reads row for row', async () => {
  const all = rows(1_000);
  const receipt = await exportRows(store, () => all);
  expect(receipt).toMatchObject({ rows: 1_000, files: 1, consistent: true, provisional: false, unchanged: false });
  expect(receipt.location).toBe(
    pathToFileURL(join(root, 'visitors/projectId=p1/dateFrom=2026-01-01/dateTo=2026-01-02')).href,
  );
  expect(await globRows()).toEqual(all);
});

test('the manifest names rows, bytes and hash of the file, and nothing is left in staging', async () => {
  await exportRows(store, () => rows(100));
  const bytes = await parquet();
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const { files, exportedAt } = await published();
  expect(files).toEqual([{ name: parquetName(sha256, exportedAt), rows: 100, bytes: bytes.length, sha256 }]);
  expect(await readdir(root)).toEqual(['visitors']);
});

test('every path of Unicode and every count up to 2^53 − 1 comes back as it was', async () => {
  const paths = [
    '/',
    '',
    '/ü',
    '/日本',
    '/👩‍👩‍👧',
    '/\u0000',
    '/\uFFFF',
    '/\u{10FFFF}',
    '/%2e%2e',
    "/'; drop table",
    '/\r\n',
  ];
  const all = paths.map((path, i) => ({ path, human: Number.MAX_SAFE_INTEGER - i, ai: i, total: 2 ** 52 - i }));
  await exportRows(store, () => all);
  expect(await globRows()).toEqual(all);
  expect(await parquetRows()).toHaveLength(paths.length);
});

test('a path that begins like the mark of an encoding is another than the one without', async () => {
  const all = ['/a', '\uFEFF/a', '\uFEFF'].map((path) => ({ ...row(1), path }));
  expect(await exportRows(store, () => all)).toMatchObject({ consistent: true, rows: 3 });
  for await (const found of findSnapshots(store)) {
    expect(await verifySnapshot(store, found)).toMatchObject({ rows: 3, problems: [] });
  }
});

test('half a surrogate pair, which no file can hold, becomes the replacement character', async () => {
  await exportRows(store, () => [{ ...row(1), path: '/\ud800x' }]);
  expect((await globRows())[0]?.path).toBe('/\ufffdx');
});

test('the same content in another order touches no file', async () => {
  const first = await exportRows(store, () => rows(50));
  const before = await stats();
  const again = await exportRows(store, () => rows(50).reverse(), { runId: 'run-2' });
  expect(again).toEqual({ ...first, unchanged: true });
  expect(await stats()).toEqual(before);
});

test('changed content replaces the snapshot, and the glob gives the new rows alone', async () => {
  await exportRows(store, () => rows(50));
  await exportRows(store, () => rows(30, 10));
  expect(await globRows()).toEqual(rows(30, 10));
});

const moving = (all: readonly Row[]) => (request: number) => (request === 1 ? [row(5_000), ...all] : all);

test('an inconsistent scan never replaces a consistent snapshot, and the result shows the inconsistency', async () => {
  const kept = await exportRows(store, () => rows(50));
  const before = await stats();
  const receipt = await exportRows(store, moving(rows(60)), { runId: 'run-2' });
  expect(receipt).toEqual({ ...kept, unchanged: true, drift: { kind: 'totals', offset: 9 } });
  expect(await stats()).toEqual(before);
});

test('inconsistent replaces inconsistent, and consistent replaces it', async () => {
  expect(await exportRows(store, moving(rows(50)))).toMatchObject({ consistent: false, unchanged: false });
  expect(await exportRows(store, moving(rows(60)))).toMatchObject({ consistent: false, unchanged: false });
  expect(await exportRows(store, () => rows(60), { runId: 'run-2' })).toMatchObject({
    consistent: true,
    unchanged: false,
  });
  expect(await published()).not.toHaveProperty('drift');
});

test('a scan that left rows out replaces a snapshot as a consistent one does, and says so', async () => {
  const malformed = { kind: 'malformedRows', offset: 3, count: 2, field: 'path is not a text' } as const;
  await exportRows(store, () => rows(25));
  const receipt = await exportRows(store, () => rows(24), { runId: 'run-2', exportedAt: LATER, malformed });
  expect(receipt).toMatchObject({ rows: 24, consistent: false, drift: malformed });
  await exportRows(store, (request) => rows(24, request), { runId: 'run-3', exportedAt: '2026-01-04T12:00:00.000Z' });
  expect(await published()).toMatchObject({ rows: 24, drift: malformed, runId: 'run-2' });
  await exportRows(store, () => rows(25), { runId: 'run-4', exportedAt: '2026-01-04T12:00:00.000Z' });
  expect(await published()).toMatchObject({ rows: 25, consistent: true });
});

test('a consistent scan that confirms an inconsistent snapshot writes the manifest alone', async () => {
  const all = rows(25);
  const moved = [...all.slice(1, 10), row(0), ...all.slice(10)];
  const first = await exportRows(store, (request) => (request === 3 ? moved : all));
  expect(first).toMatchObject({ consistent: false, drift: { kind: 'firstPage', offset: 0 } });
  const before = (await stat(parquetPath(root, RANGE))).mtimeMs;
  const second = await exportRows(store, () => all, { runId: 'run-2' });
  expect(second).toMatchObject({ snapshotId: first.snapshotId, consistent: true, unchanged: false });
  expect((await stat(parquetPath(root, RANGE))).mtimeMs).toBe(before);
  expect((await published()).files[0]?.rows).toBe(25);
});

test('a snapshot read before noon UTC of dateTo is provisional till a later manifest alone clears it', async () => {
  const first = await exportRows(store, () => rows(25), { exportedAt: DURING });
  expect(first.provisional).toBe(true);
  const bytes = await parquet();
  const second = await exportRows(store, () => rows(25).reverse(), { exportedAt: FINAL });
  expect(second).toMatchObject({ snapshotId: first.snapshotId, provisional: false, unchanged: false });
  expect((await parquet()).equals(bytes)).toBe(true);
});

test('a third night that reads the same rows says in a manifest alone that nothing later is missing', async () => {
  const night = (n: number, more: Telling = {}) =>
    exportRows(store, () => rows(25), { exportedAt: `2026-01-0${n}T11:59:00.000Z`, runId: `run-${n}`, ...more });
  const early = await night(3);
  const bytes = await parquet();
  const leftOut = await night(4, { malformed: { kind: 'malformedRows', offset: 3 } });
  expect(leftOut).toMatchObject({ unchanged: true, consistent: true });
  expect(await night(4)).toEqual(early);
  expect((await published()).exportedAt).toContain('2026-01-04');
  expect((await parquet()).equals(bytes)).toBe(true);
  expect((await night(5)).unchanged).toBe(true);
});

test('0 rows are a snapshot without a parquet, and remove the provisional one before', async () => {
  await exportRows(store, () => rows(25), { exportedAt: '2026-01-02T11:00:00.000Z' });
  const receipt = await exportRows(store, () => [], { exportedAt: DURING, runId: 'run-2' });
  expect(receipt).toMatchObject({ rows: 0, files: 0, consistent: true, unchanged: false });
  expect(await readdir(inRoot(snapshotFolder(RANGE)))).toEqual(['manifest.json']);
  expect(await exportRows(store, () => [], { runId: 'run-3' })).toMatchObject({ files: 0, unchanged: false });
  expect(await exportRows(store, () => [], { runId: 'run-4' })).toMatchObject({ files: 0, unchanged: true });
});

test('a run that dies between parquet and manifest is finished by the next run', async () => {
  await exportRows(store, () => rows(25));
  const saved = await dying(() => exportRows(dyingAt(store, manifestKey(RANGE)), () => rows(40), { runId: 'run-2' }));
  expect(saved.rows).toBe(25);
  // It is no damage that a person would have to remove.
  const days = daysOf([saved], RANGE.dateFrom, RANGE.dateTo);
  expect(await withDamage(store, days)).toEqual(days);
  await finishPublication(store, RANGE);
  expect(await published()).toMatchObject({ rows: 40, consistent: true });
  expect(await globRows()).toEqual(rows(40));
});

test('the retry of an attempt that died between parquet and manifest reports what it changed', async () => {
  const checkpoint = await readScan(store, () => rows(40));
  const finished = { range: RANGE, runId: 'run-1', scan: 1, checkpoint, inconsistency: null, exportedAt: FINAL };
  await dying(() => publishScan(dyingAt(store, manifestKey(RANGE)), finished));
  expect(await publishScan(store, finished)).toMatchObject({ rows: 40, unchanged: false, consistent: true });
});

test('a run that dies before the parquet is replaced leaves the snapshot as it was', async () => {
  await exportRows(store, () => rows(25));
  await dying(() => exportRows(dyingAt(store, PARQUET), () => rows(40), { runId: 'run-2' }));
  await finishPublication(store, RANGE);
  expect(await published()).toMatchObject({ rows: 25 });
  expect(await globRows()).toEqual(rows(25));
});

test('a writer that stalls before its manifest finds that a newer run has published, and leaves it alone', async () => {
  const newer = () => exportRows(store, () => rows(60), { runId: 'run-2' });
  const stalled = after(store, 'put', PARQUET, newer);
  await expect(exportRows(stalled, () => rows(40))).rejects.toBeInstanceOf(StaleStagingError);
  expect(await published()).toMatchObject({ rows: 60, consistent: true });
  expect(await globRows()).toEqual(rows(60));
  expect(await readdir(root)).not.toContain('staging');
});

test('a writer that stalls while it copies rows finds them swept by a newer run, and leaves that alone', async () => {
  const checkpoint = await readScan(store, () => rows(40));
  const newer = () => exportRows(store, () => rows(60), { runId: 'run-2' });
  const stalled = after(store, 'read', chunkKey(RANGE, 'run-1', 1, checkpoint.chunks - 1), newer);
  const finished = { range: RANGE, runId: 'run-1', scan: 1, checkpoint, inconsistency: null, exportedAt: FINAL };
  await expect(publishScan(stalled, finished)).rejects.toBeInstanceOf(StaleStagingError);
  expect(await published()).toMatchObject({ rows: 60, consistent: true });
  expect(await globRows()).toEqual(rows(60));
  expect(await readdir(root)).toEqual(['visitors']);
});

test('a run that dies before it writes the manifest alone is finished by the next run', async () => {
  await exportRows(store, () => rows(25), { exportedAt: DURING });
  const isManifest = dyingAt(store, manifestKey(RANGE));
  await dying(() => exportRows(isManifest, () => rows(25), { runId: 'run-2', exportedAt: FINAL }));
  await finishPublication(store, RANGE);
  expect(await published()).toMatchObject({ rows: 25, runId: 'run-2', provisional: false });
});

test('rows that a given-up worker overwrote in staging are not published', async () => {
  const checkpoint = await readScan(store, () => rows(100));
  const [one, two] = [chunkKey(RANGE, 'run-1', 1, 1), chunkKey(RANGE, 'run-1', 1, 2)].map(inRoot) as [string, string];
  await cp(one, two);
  const finished = { range: RANGE, runId: 'run-1', scan: 1, checkpoint, inconsistency: null, exportedAt: FINAL };
  await expect(publishScan(store, finished)).rejects.toBeInstanceOf(StaleStagingError);
  expect((await readdir(root, { recursive: true })).filter((name) => name.endsWith('.parquet'))).toEqual([]);
});

test('a run that dies before it removes what it replaced leaves that to the next run', async () => {
  await exportRows(store, () => rows(25));
  const dies = changed(store, 'remove', () => Promise.reject(new Error('died')));
  await dying(() => exportRows(dies, () => rows(40), { runId: 'run-2' }));
  expect(await published()).toMatchObject({ rows: 40 });
  expect(await globRows()).toHaveLength(65);
  await finishPublication(store, RANGE);
  expect(await globRows()).toEqual(rows(40));
});

test('a reader in ranges never mixes two files, however often one is replaced', async () => {
  await exportRows(store, () => rows(10));
  let isOver = false;
  const read = { whole: 0, gone: 0, mixed: 0 };
  const reading = (async () => {
    while (!isOver) {
      const [file] = (await published()).files;
      const bytes = await inPieces(inRoot(`${snapshotFolder(RANGE)}/${file!.name}`), file!.bytes);
      if (bytes === null) read.gone += 1;
      else if (createHash('sha256').update(bytes).digest('hex') === file!.sha256) read.whole += 1;
      else read.mixed += 1;
    }
  })();
  for (let n = 0; n < 40; n++) await exportRows(store, () => rows(10, n % 7), { runId: `run-${n}` });
  isOver = true;
  await reading;
  expect(read).toMatchObject({ mixed: 0 });
  expect(read.whole).toBeGreaterThan(0);
  const names = await readdir(inRoot(snapshotFolder(RANGE)));
  expect(names).toHaveLength(2);
});

/** As a reader of Parquet does, who opens the file by its name for each range; null if it is gone. */
async function inPieces(path: string, size: number): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < size; at += 200) {
    const file = await open(path).catch(() => null);
    if (!file) return null;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(200), 0, 200, at);
    await file.close();
    pieces.push(buffer.subarray(0, bytesRead));
  }
  return Buffer.concat(pieces);
}

const PARQUET = /^visitors\/.*\.parquet$/;

async function stats(): Promise<unknown[]> {
  const names = await readdir(root, { recursive: true });
  return Promise.all(names.sort().map(async (name) => [name, (await stat(join(root, name))).mtimeMs]));
}

async function dying(work: () => Promise<unknown>): Promise<SnapshotManifest> {
  await expect(work()).rejects.toThrow('died');
  return published().catch(() => ({}) as SnapshotManifest);
}

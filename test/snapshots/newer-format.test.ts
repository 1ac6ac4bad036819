/** What becomes of a snapshot that a newer release wrote, whose manifest this one can't read. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { findSnapshots, listManifests } from '../../src/exports/snapshots/catalog.js';
import { intentKey, manifestKey } from '../../src/exports/snapshots/layout.js';
import { parseManifest } from '../../src/exports/snapshots/manifest.js';
import { finishPublication } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { verifySnapshot } from '../../src/exports/snapshots/verify.js';
import { plusDays } from '../../src/exports/date-range.js';
import { buildReport } from '../../src/exports/report/report.js';
import { projectDays } from '../../src/worker/export-gauges.js';
import { exportRows, RANGE, rows } from './pages.js';
import { useStore } from './test-store.js';

let root: string;
let store: SnapshotStore;
const LATER = '2026-01-04T00:00:00.000Z';
const NEXT_DAY = { projectId: 'p1', dateFrom: '2026-01-02', dateTo: '2026-01-03' };
const WORDS = 'a newer release wrote this manifest (format 2; this one knows 1): upgrade the workers';

useStore((made) => ({ root, store } = made));
beforeEach(async () => {
  await exportRows(store, () => rows(50));
  const file = join(root, manifestKey(RANGE));
  // Neither its other fields nor its checksum need be those of today.
  await writeFile(file, (await readFile(file, 'utf8')).replace('"formatVersion": 1', '"formatVersion": 2'));
});

async function everything(): Promise<string[]> {
  const entries = await readdir(join(root, 'visitors'), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return Promise.all(files.sort().map(async (file) => `${file}: ${(await readFile(file)).toString('base64')}`));
}

test('it is never replaced, and the failure says what to do', async () => {
  const before = await everything();
  const failure = { name: 'SnapshotStoreError', operation: 'read', error: expect.stringContaining(WORDS) };
  await expect(exportRows(store, () => rows(60), { exportedAt: LATER, runId: 'run-2' })).rejects.toMatchObject(failure);
  expect(await everything()).toEqual(before);
});

test('a run finds that out before it requests anything', async () => {
  await expect(finishPublication(store, RANGE)).rejects.toThrow(WORDS);
});

test('a manifest without a version is of the first format', async () => {
  await exportRows(store, () => rows(5), { range: NEXT_DAY });
  const manifest = JSON.parse(String(await store.read(manifestKey(NEXT_DAY)))) as { formatVersion?: number };
  delete manifest.formatVersion;
  expect(parseManifest(Buffer.from(JSON.stringify(manifest)))).toEqual(manifest);
});

test('what a newer release left half-published is no publication of this one', async () => {
  const manifest = JSON.parse(String(await store.read(manifestKey(RANGE)))) as object;
  await store.put(intentKey(NEXT_DAY), Buffer.from(JSON.stringify(manifest)));
  const before = await store.read(manifestKey(NEXT_DAY));
  await finishPublication(store, NEXT_DAY);
  expect(await store.read(manifestKey(NEXT_DAY))).toEqual(before);
});

test('verify names it as such; gaps, backfill and the report refuse to call its day missing', async () => {
  const problems: string[][] = [];
  for await (const found of findSnapshots(store)) problems.push((await verifySnapshot(store, found)).problems);
  expect(problems).toEqual([[expect.stringContaining(WORDS)]]);
  await expect(listManifests(store, 'p1').next()).rejects.toThrow(WORDS);
  await expect(buildReport(store, 'p1', LATER)).rejects.toThrow(WORDS);
});

test('a worker counts its day as a gap, and the days of all projects as before', async () => {
  const range = { projectId: 'p2', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
  await exportRows(store, () => rows(5), { range });
  const made = Date.parse('2026-01-01T00:00:00Z');
  const schedules = new Map([
    ['p1', made],
    ['p2', made],
  ]);
  const days = await projectDays(store, made + 3 * 86_400_000, schedules);
  expect(days.get('p1')).toMatchObject({ since: made });
  expect(days.get('p1')!.gaps).toBeGreaterThan(days.get('p2')!.gaps);
  expect(days.get('p2')).toMatchObject({ since: Date.parse('2026-01-02') });
});

test('a worker that counts the days of many projects has few manifests open at the same time', async () => {
  let [open, most] = [0, 0];
  const dates = Array.from({ length: 28 }, (_, n) => plusDays('2026-01-01', n));
  const crowded = {
    async *list(folder: string) {
      const projectId = folder.split('=')[1]!;
      for (const date of dates) yield manifestKey({ projectId, dateFrom: date, dateTo: plusDays(date, 1) });
    },
    async read() {
      most = Math.max(most, ++open);
      await setImmediate();
      open--;
      return null;
    },
  } as Partial<SnapshotStore> as SnapshotStore;
  const schedules = new Map(Array.from({ length: 20 }, (_, n) => [`p${n}`, 0]));
  const days = await projectDays(crowded, Date.parse('2026-01-29T00:00:00Z'), schedules);
  expect([days.size, most]).toEqual([20, dates.length]);
});

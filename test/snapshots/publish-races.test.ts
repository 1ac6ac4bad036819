import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { daysOf, findSnapshots, type FoundSnapshot, withDamage } from '../../src/exports/snapshots/catalog.js';
import { snapshotFolder, supersededFolder } from '../../src/exports/snapshots/layout.js';
import { isWhole } from '../../src/exports/snapshots/manifest.js';
import { finishPublication } from '../../src/exports/snapshots/publish.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { cleanUpStaging } from '../../src/exports/snapshots/staging.js';
import { verifySnapshot } from '../../src/exports/snapshots/verify.js';
import { exportRows, RANGE, rows } from './pages.js';
import { changed, dyingAt, manifestIn, useStore } from './test-store.js';

let root: string;
let store: SnapshotStore;
useStore((made) => ({ root, store } = made));

const FOLDER = snapshotFolder(RANGE);
const PARQUET = /^visitors\/.*\.parquet$/;
const MANIFEST = /^visitors\/.*manifest\.json$/;
const THIRD = '2026-01-03T12:00:00.000Z';
const LATER = '2026-01-04T12:00:00.000Z';

const published = () => manifestIn(store);
const named = async () => (await published()).files.map(({ name }) => name);
const parquets = async (folder = FOLDER) =>
  (await readdir(join(root, folder))).filter((name) => name.endsWith('.parquet')).toSorted();
/** Another run, whole, which began later. */
const newer = (count: number) => () => exportRows(store, () => rows(count), { runId: 'run-9', exportedAt: LATER });

/** The store of a writer whose first such operation stands still until `meanwhile` is over. */
function stalled(operation: keyof SnapshotStore, key: RegExp, meanwhile: () => Promise<unknown>): SnapshotStore {
  let isOver = false;
  return changed(store, operation, (real, args) => {
    if (isOver || !key.test(String(args[0]))) return real(...args);
    isOver = true;
    if (operation !== 'list') return meanwhile().then(() => real(...args));
    return (async function* () {
      await meanwhile();
      yield* real(...args) as AsyncIterable<string>;
    })();
  });
}

/** A store that has all of a file, and shows it only after `meanwhile`, as S3 may. */
function late(meanwhile: () => Promise<unknown>): SnapshotStore {
  return changed(store, 'put', async (real, [key, source]) => {
    if (!PARQUET.test(String(key))) return real(key, source);
    const pieces: Buffer[] = [];
    for await (const piece of source as AsyncIterable<Uint8Array>) pieces.push(Buffer.from(piece));
    await meanwhile();
    await real(key, Buffer.concat(pieces));
    throw new Error('reset');
  });
}

test('a run that stalls before it lists what to remove leaves a newer run’s file alone', async () => {
  await exportRows(stalled('list', new RegExp(`^${FOLDER}$`), newer(60)), () => rows(40));
  expect(await isWhole(store, await published())).toBe(true);
});

test('a run that stalls before it removes a file meets none of a run with the same content', async () => {
  await exportRows(store, () => rows(25));
  await exportRows(stalled('remove', PARQUET, newer(25)), () => rows(40), { exportedAt: THIRD, runId: 'run-2' });
  expect(await isWhole(store, await published())).toBe(true);
});

test('a manifest that comes too late takes no newer rows away', async () => {
  await exportRows(stalled('put', MANIFEST, newer(60)), () => rows(40)).catch(() => {});
  expect(await parquets()).toHaveLength(1);
});

test('who finishes the publication of a dead run, and stalls, takes nothing from a newer run', async () => {
  await expect(exportRows(dyingAt(store, MANIFEST), () => rows(40))).rejects.toThrow('died');
  await finishPublication(stalled('put', MANIFEST, newer(60)), RANGE).catch(() => {});
  expect(await published()).toMatchObject({ rows: 60, runId: 'run-9' });
});

test('a file that appears late, though the store says that it failed, is removed', async () => {
  await exportRows(store, () => rows(20), { runId: 'run-0' });
  await expect(exportRows(late(newer(60)), () => rows(40))).rejects.toThrow('reset');
  expect(await parquets()).toEqual(await named());
});

test('a file whose writer died with it is removed with the next run', async () => {
  await exportRows(store, () => rows(20), { runId: 'run-0' });
  const dead = changed(late(newer(60)), 'list', () => []);
  await expect(exportRows(dead, () => rows(40))).rejects.toThrow('reset');
  expect(await parquets()).toHaveLength(2);
  await finishPublication(store, RANGE);
  await cleanUpStaging(store, RANGE);
  expect(await parquets()).toEqual(await named());
});

test('what is replaced a second time, in another order, is kept once', async () => {
  const { snapshotId } = await exportRows(store, () => rows(30), { runId: 'a' });
  await exportRows(store, () => rows(40), { runId: 'b' });
  await exportRows(store, () => rows(30).toReversed(), { runId: 'c' });
  await exportRows(store, () => rows(40), { runId: 'd' });
  expect(await parquets(supersededFolder(RANGE, snapshotId))).toHaveLength(1);
});

test('a snapshot that is replaced between listing and reading is verified as it is then', async () => {
  await exportRows(store, () => rows(20), { runId: 'run-0' });
  const found: FoundSnapshot[] = [];
  for await (const each of findSnapshots(store)) found.push(each);
  await newer(60)();
  expect((await verifySnapshot(store, found[0]!)).problems).toEqual([]);
});

test('a day that is exported anew between its manifest and its files is no damage, to gaps nor to verify', async () => {
  await exportRows(store, () => rows(20), { runId: 'run-0' });
  const days = daysOf([await published()], RANGE.dateFrom, RANGE.dateTo);
  await exportRows(store, () => rows(40), { exportedAt: THIRD });
  expect(await withDamage(store, days)).toMatchObject([{ state: 'final', manifest: { rows: 40 } }]);
  const found: FoundSnapshot[] = [];
  for await (const each of findSnapshots(store)) found.push(each);
  const verification = await verifySnapshot(stalled('read', PARQUET, newer(60)), found[0]!);
  expect(verification).toMatchObject({ rows: 60, problems: [] });
});

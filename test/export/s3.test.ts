import { randomUUID } from 'node:crypto';
import { parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { VisitorExportRange } from '../../src/contract.js';
import { intentKey } from '../../src/exports/snapshots/layout.js';
import { readManifest, sha256Of } from '../../src/exports/snapshots/manifest.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { startS3Server, type S3Server } from '../support/s3-server.js';
import { failureMessages, moving, rangeOf, runExport, startExport, until, useExport, withWorkers } from './export.js';
import { parquetKey } from '../snapshots/published.js';

let s3: S3Server;
const ROWS = 1_000;
const TWO_CHUNKS = 31_000;

beforeAll(async () => {
  s3 = await startS3Server();
}, 300_000);
afterAll(() => s3.stop());
const setUp = useExport({ visitors: { rows: ROWS } });

test('an export into a bucket is whole, leaves no staging, and is unchanged the second time', async () => {
  await setUp.sandbox.setVisitors({ rows: TWO_CHUNKS });
  const store = await openStore(`s3://${s3.bucket}/${randomUUID()}`, { forcePathStyle: true });
  const range = rangeOf(setUp);
  await withWorkers({ ...setUp, store }, async () => {
    const [first] = (await runExport(setUp, range)).snapshots;
    expect(first).toMatchObject({ rows: TWO_CHUNKS, consistent: true, unchanged: false });
    expect(first?.location).toBe(
      `${store.url}/visitors/projectId=${range.projectId}/dateFrom=2026-01-01/dateTo=2026-01-02`,
    );
    expect((await runExport(setUp, range)).snapshots).toEqual([{ ...first, unchanged: true }]);
  });
  const keys = [];
  for await (const key of store.list('staging')) keys.push(key);
  expect(keys).toEqual([]);
  const manifest = await readManifest(store, range);
  expect(manifest?.files[0]?.sha256).toBe(await sha256Of(store, await parquetKey(store, range)));
  const bytes = (await store.read(await parquetKey(store, range))) as Buffer;
  expect(await parquetReadObjects({ file: new Uint8Array(bytes).buffer })).toHaveLength(TWO_CHUNKS);
});

const MORE_ROWS = ROWS + 600;

/** A run of new rows that stands between its parquet and its manifest, which the bucket denies. */
async function startHalfPublished(store: SnapshotStore, prefix: string, range: VisitorExportRange) {
  await runExport(setUp, range);
  await setUp.sandbox.setVisitors({ rows: MORE_ROWS });
  const allow = await s3.deny(['PutObject'], `${prefix}/visitors/*/manifest.json`);
  const handle = await startExport(setUp, range);
  await until(async () => (await failureMessages(handle)).filter((message) => /manifest/.test(message)).length >= 3);
  expect(await readManifest(store, range)).toMatchObject({ rows: ROWS });
  return { handle, allow };
}

test('a run that is cancelled between parquet and manifest ends with a whole snapshot', async () => {
  const prefix = randomUUID();
  const store = await openStore(`s3://${s3.bucket}/${prefix}`, { forcePathStyle: true });
  const range = rangeOf(setUp, '2026-01-04', '2026-01-05');
  await withWorkers({ ...setUp, store }, async () => {
    const { handle, allow } = await startHalfPublished(store, prefix, range);
    await allow();
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
  });
  const manifest = await readManifest(store, range);
  expect(manifest).toMatchObject({ rows: MORE_ROWS, consistent: true });
  expect(manifest?.files[0]?.sha256).toBe(await sha256Of(store, await parquetKey(store, range)));
  expect(await store.read(intentKey(range))).toBeNull();
});

test('a run cancelled while its manifest is denied leaves it to the next, not to an inconsistent scan', async () => {
  const prefix = randomUUID();
  const store = await openStore(`s3://${s3.bucket}/${prefix}`, { forcePathStyle: true });
  const range = rangeOf(setUp, '2026-01-05', '2026-01-06');
  await withWorkers({ ...setUp, store }, async () => {
    const { handle, allow } = await startHalfPublished(store, prefix, range);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    await allow();
  });
  const { upstream } = await moving(setUp, range, { kind: 'swap', times: Infinity });
  const [receipt] = (await withWorkers({ ...setUp, store }, () => runExport(setUp, range), { upstream })).snapshots;
  expect(receipt).toMatchObject({ rows: MORE_ROWS, consistent: true, unchanged: true, drift: expect.anything() });
  expect((await readManifest(store, range))?.files[0]?.sha256).toBe(
    await sha256Of(store, await parquetKey(store, range)),
  );
});

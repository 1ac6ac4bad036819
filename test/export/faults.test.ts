import { execFileSync, type ChildProcess } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { VISITOR_EXPORT_WORKFLOW } from '../../src/contract.js';
import { sha256Of } from '../../src/exports/snapshots/manifest.js';
import { SnapshotStoreError } from '../../src/exports/snapshots/snapshot-store.js';
import type { FaultRule } from '../../src/testing.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import {
  exportIdOf,
  failureMessages,
  failureOfRun,
  forkExportWorker,
  publishedManifest,
  publishedRows,
  rangeOf,
  runExport,
  startExport,
  topFolders,
  until,
  useExport,
  visitorRequests,
  withWorkers,
  workflowWorker,
} from './export.js';
import { parquetKey } from '../snapshots/published.js';

const ROWS = 2_000;
const PAGES = 9; // each but the first begins with the last row of the one before

const setUp = useExport({ visitors: { rows: ROWS } }, () =>
  connectPrivateDevServer({
    dynamicConfig: {
      'history.timerProcessorMaxTimeShift': '"50ms"',
      'limit.historyCount.suggestContinueAsNew': '16',
    },
  }),
);

/** Exports, and gives what was published beside what the upstream holds. */
async function exportWhole() {
  const range = rangeOf(setUp);
  const { snapshots } = await withWorkers(setUp, () => runExport(setUp, range));
  const { entries } = await setUp.sandbox.expectedSnapshot(range);
  return { receipt: snapshots[0], rows: await publishedRows(setUp, range), entries };
}

/** Some of those that `test/upstream/reads.test.ts` tells apart from a page. */
const passing: FaultRule[] = [
  { kind: 'status', status: 503, count: 3 },
  { kind: 'reset', count: 2 },
  { kind: 'truncated' },
  { kind: 'status', status: 200, body: '{,' },
  { kind: 'status', status: 307, headers: { location: '/elsewhere' } },
  { kind: 'status', status: 302, headers: { location: 'https://login.example/sso' } },
  { kind: 'status', status: 403, headers: { 'content-type': 'text/html' }, body: '<title>Just a moment…</title>' },
  { kind: 'status', status: 404, headers: { 'content-type': 'text/plain' }, body: 'default backend - 404' },
];

test.each(passing)('a page that fails once is asked for again, and no row is missing or doubled: %j', async (rule) => {
  await setUp.sandbox.addFault({ nth: 4, ...rule, operation: 'visitors' } as FaultRule);
  const { receipt, rows, entries } = await exportWhole();
  expect(receipt).toMatchObject({ rows: ROWS, consistent: true });
  expect(rows).toEqual(entries);
  expect((await setUp.sandbox.counts()).operations.other.requests).toBe(0);
});

test('an export whose history has grown long goes on over continue-as-new, row for row', async () => {
  const rows = 60_000; // three chunks
  await setUp.sandbox.setVisitors({ rows });
  const range = rangeOf(setUp);
  await withWorkers(setUp, async () => {
    const handle = await startExport(setUp, range);
    expect((await handle.result()).snapshots[0]).toMatchObject({ rows, consistent: true });
    const last = setUp.server.client.workflow.getHandle(handle.workflowId);
    expect((await last.describe()).runId).not.toBe(handle.firstExecutionRunId);
  });
  expect(new Set((await publishedRows(setUp, range)).map(({ path }) => path)).size).toBe(rows);
});

test('a run that waits long for another’s writer of its days goes on over continue-as-new', async () => {
  const range = rangeOf(setUp);
  const { client } = setUp.server;
  const writer = await client.workflow.start(VISITOR_EXPORT_WORKFLOW, {
    ...{ taskQueue: 'no-worker-polls-this', workflowId: exportIdOf(range), args: [range] },
  });
  await withWorkers(setUp, async () => {
    const waiting = await startExport(setUp, range, `waits-${writer.workflowId}`);
    const last = client.workflow.getHandle(waiting.workflowId);
    await until(async () => (await last.describe()).runId !== waiting.firstExecutionRunId);
    await writer.terminate();
    expect((await waiting.result()).snapshots[0]).toMatchObject({ rows: ROWS, consistent: true });
  });
  expect(await visitorRequests(setUp)).toBe(PAGES + 1);
});

test.each([401, 422])('a %i fails the run as ExportRejected with the upstream’s text', async (status) => {
  const body = { error: 'no such project', details: [{ message: 'more' }] };
  await setUp.sandbox.addFault({ kind: 'status', status, body, operation: 'visitors', nth: 3, count: 9 });
  const failure = await withWorkers(setUp, () => failureOfRun(runExport(setUp, rangeOf(setUp))));
  expect(failure.type).toBe('ExportRejected');
  expect(failure.details).toEqual([{ status, error: expect.stringContaining('no such project') }]);
  expect(await topFolders(setUp)).toEqual([]);
});

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

test('a chunk that the store refuses for a moment is read again, and no row is missing or doubled', async () => {
  const { store } = setUp;
  const put = store.put.bind(store);
  let refusals = 2;
  store.put = async (key, body) => {
    if (key.endsWith('.rows') && refusals-- > 0) throw new SnapshotStoreError('write', key, new Error('EIO'));
    return put(key, body);
  };
  const { receipt, rows, entries } = await exportWhole();
  expect(receipt).toMatchObject({ rows: ROWS, consistent: true });
  expect(rows).toEqual(entries);
  expect(await visitorRequests(setUp)).toBe(3 * (PAGES + 1));
});

test.runIf(process.platform === 'linux')(
  'a disk that takes no more while publishing leaves the old snapshot, and room brings the new one',
  async () => {
    const range = rangeOf(setUp);
    const rows = 110_000; // four chunks
    await setUp.sandbox.setVisitors({ rows });
    const workflows = await workflowWorker(setUp.server);
    const worker = forkExportWorker(setUp);
    await workflows
      .runUntil(async () => {
        await runExport(setUp, range);
        const kept = await publishedManifest(setUp, range);
        await setUp.sandbox.setVisitors({ rows, seed: 2 });
        // Each chunk has room, the file of all four has not.
        limitFileSize(worker, String(Math.floor(kept.files[0]!.bytes * 0.9)));
        const handle = await startExport(setUp, range);
        await until(async () =>
          (await failureMessages(handle)).some((message) =>
            /write (visitors|superseded).*parquet.*EFBIG/.test(message),
          ),
        );
        expect(await publishedManifest(setUp, range)).toEqual(kept);
        expect(await sha256Of(setUp.store, await parquetKey(setUp.store, range))).toBe(kept.files[0]?.sha256);
        limitFileSize(worker, 'unlimited');
        expect((await handle.result()).snapshots[0]).toMatchObject({ rows, consistent: true, unchanged: false });
      })
      .finally(() => worker.kill('SIGKILL'));
    expect((await publishedManifest(setUp, range)).files[0]?.sha256).toBe(
      await sha256Of(setUp.store, await parquetKey(setUp.store, range)),
    );
    expect(await topFolders(setUp)).toEqual(['superseded', 'visitors']);
  },
);

/** What the system lets a process write into one file; more fails as on a full disk. */
function limitFileSize({ pid }: ChildProcess, bytes: string): void {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:`]);
}

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createExportActivities } from '../../src/activities/visitor-export/export-activities.js';
import {
  exportWorker,
  failureMessages,
  forkExportWorker,
  publishedRows,
  rangeOf,
  startExport,
  topFolders,
  until,
  useExport,
  visitorRequests,
  workflowWorker,
} from './export.js';

const running: ChildProcess[] = [];
const ROWS = 40_000; // two chunks
const PAGES = 161;
const SHORT_ROWS = 13_000; // one chunk
const SHORT_PAGES = 53;

const setUp = useExport({ visitors: { rows: ROWS } });
afterEach(() => killAll());

test('a worker that is killed in a chunk costs that chunk again, and no row is missing or doubled', async () => {
  const inSecondChunk = 140;
  await setUp.sandbox.addFault({ kind: 'hang', operation: 'visitors', nth: inSecondChunk });
  const workflows = await workflowWorker(setUp.server);
  const range = rangeOf(setUp);
  await workflows.runUntil(async () => {
    startWorkerProcess();
    const handle = await startExport(setUp, range);
    await until(async () => (await visitorRequests(setUp)) >= inSecondChunk);
    await killAll();
    startWorkerProcess();
    const { snapshots } = await handle.result();
    expect(snapshots[0]).toMatchObject({ rows: ROWS, consistent: true });
  });
  expect(await visitorRequests(setUp)).toBe(inSecondChunk + (PAGES + 1 - 120));
  expect(await publishedRows(setUp, range)).toEqual((await setUp.sandbox.expectedSnapshot(range)).entries);
  expect(await topFolders(setUp)).toEqual(['visitors']);
});

test('the worker after a killed one asks for no page while the store refuses', async () => {
  const held = 50;
  await setUp.sandbox.setVisitors({ rows: SHORT_ROWS });
  await setUp.sandbox.addFault({ kind: 'hang', operation: 'visitors', nth: held });
  const workflows = await workflowWorker(setUp.server);
  await workflows.runUntil(async () => {
    startWorkerProcess();
    const handle = await startExport(setUp, rangeOf(setUp));
    await until(async () => (await visitorRequests(setUp)) >= held);
    await killAll();
    await writeFile(join(setUp.root, 'staging'), 'in the way');
    startWorkerProcess();
    await until(async () => (await failureMessages(handle)).length >= 2);
    expect(await visitorRequests(setUp)).toBe(held);
    await rm(join(setUp.root, 'staging'));
    expect((await handle.result()).snapshots[0]).toMatchObject({ rows: SHORT_ROWS, consistent: true });
  });
  expect(await visitorRequests(setUp)).toBe(held + SHORT_PAGES + 1);
});

test('a worker that shuts down keeps what it has read, and the next one goes on from there', async () => {
  const held = 50;
  await setUp.sandbox.setVisitors({ rows: SHORT_ROWS });
  await setUp.sandbox.addFault({ kind: 'hang', operation: 'visitors', nth: held });
  const workflows = await workflowWorker(setUp.server);
  const shutdown = new AbortController();
  const exports = (shutdownSignal: AbortSignal) =>
    exportWorker(setUp.server, createExportActivities({ ...setUp, shutdownSignal }), {
      shutdownGraceTime: '10 seconds',
    });
  await workflows.runUntil(async () => {
    const first = await exports(shutdown.signal);
    const draining = first.run();
    const handle = await startExport(setUp, rangeOf(setUp));
    await until(async () => (await visitorRequests(setUp)) >= held);
    shutdown.abort();
    first.shutdown();
    await draining;
    const second = await exports(new AbortController().signal);
    const { snapshots } = await second.runUntil(handle.result());
    expect(snapshots[0]).toMatchObject({ rows: SHORT_ROWS, consistent: true });
  });
  expect(await visitorRequests(setUp)).toBe(SHORT_PAGES + 1 + 1);
});

function startWorkerProcess(): void {
  running.push(forkExportWorker(setUp));
}

async function killAll(): Promise<void> {
  for (const child of running.splice(0)) {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}

/** What the activities of exports report to the queue of all exports. */
import { pathToFileURL } from 'node:url';
import type { Client } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, test } from 'vitest';
import { createExportActivities, type ReadChunkInput } from '../../src/activities/visitor-export/export-activities.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { DEFAULT_PRIORITY, type BudgetFacts, type RequestReport } from '../../src/contract.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { NEW_SCAN } from '../../src/exports/scan-checkpoint.js';
import { newFolder } from '../support/folder.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const range = { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
const chunk: ReadChunkInput = {
  range,
  runId: 'run',
  scan: 1,
  checkpoint: NEW_SCAN,
  willRepeat: true,
  probeStore: false,
  ...{ taskQueue: 'none', priority: DEFAULT_PRIORITY, askedAt: 0, turn: null, isOverdue: false },
};

test('the queue learns of this hour what chunks met that had waited hours for a worker', async () => {
  const startedAt = Date.now();
  const told: (RequestReport & BudgetFacts)[] = [];
  let isFull = false;
  const getVisitors: Upstream['getVisitors'] = async () => {
    if (isFull) throw new ReadFailedError('429', 429);
    return { totals: { human: 0, ai: 0, total: 0 }, visitors: [], hasMore: false };
  };
  const store = await openStore(pathToFileURL(newFolder()).href);
  const shutdownSignal = new AbortController().signal;
  const { readChunk } = createExportActivities({ upstream: { getVisitors } as Upstream, store, shutdownSignal });
  const call = <T>(_: unknown, work: () => T) => work();
  type Joined = BudgetFacts & { report: RequestReport };
  const signalWithStart = (_: unknown, { signalArgs: [{ report, ...facts }] }: { signalArgs: [Joined] }) =>
    Promise.resolve(void told.push({ ...report, ...facts }));
  const workflow = { signalWithStart, getHandle: () => ({ query: () => Promise.resolve(null) }) };
  const client = { withAbortSignal: call, withDeadline: call, workflow };
  const read = (hoursAgo: number) => {
    const info = { currentAttemptScheduledTimestampMs: startedAt - hoursAgo * HOUR_MS };
    return new MockActivityEnvironment(info, { client: client as unknown as Client }).run(readChunk, chunk);
  };
  await read(3);
  isFull = true;
  await read(2);
  const [{ at, outcome }] = told as [RequestReport & BudgetFacts];
  expect({ outcome, told: told.length }).toEqual({ outcome: 'throttled', told: 1 });
  // A tick of the clocks, which are not read at once.
  expect(at).toBeGreaterThan(startedAt - MINUTE_MS);
});

test('a scan of another release is begun anew, or tried again before its first page, unrequested', async () => {
  const store = await openStore(pathToFileURL(newFolder()).href);
  let requests = 0;
  const getVisitors: Upstream['getVisitors'] = () => Promise.reject(new Error(`request ${++requests}`));
  const { signal: shutdownSignal } = new AbortController();
  const { readChunk } = createExportActivities({ upstream: { getVisitors } as Upstream, store, shutdownSignal });
  const read = (pages: number) =>
    new MockActivityEnvironment().run(readChunk, { ...chunk, checkpoint: { ...NEW_SCAN, version: 2, pages } });
  await expect(read(1)).rejects.toMatchObject({ type: 'StaleStaging', nonRetryable: true });
  await expect(read(0)).rejects.toMatchObject({ type: 'ExportFailed' });
  expect(requests).toBe(0);
});

/** The activities of exports beside workflows of the release before, which knew no turns. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Client } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createExportActivities, type ReadChunkInput } from '../../src/activities/visitor-export/export-activities.js';
import { openStore } from '../../src/snapshots/open-store.js';
import type { BudgetFacts, RequestReport } from '../../src/contract.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { NEW_SCAN } from '../../src/visitor-export/scan-checkpoint.js';
import { connectPrivateDevServer, type TestServer } from '../support/dev-server.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const range = { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
const chunk: ReadChunkInput = {
  range,
  runId: 'run',
  scan: 1,
  checkpoint: NEW_SCAN,
  willRepeat: true,
  isUpstreamFailing: false,
  probeStore: false,
};

// It has no queue of exports.
let server: TestServer;
beforeAll(async () => {
  server = await connectPrivateDevServer();
});
afterAll(() => server.close());

test('a workflow that knows no turns is told the pace of its own requests, as before', async () => {
  let requests = 0;
  const rowAt = (offset: number) => ({ path: `/${offset}`, human: 1, ai: 0, total: 1 });
  const getVisitors: Upstream['getVisitors'] = async ({ offset }) => {
    requests += 1;
    const visitors = [rowAt(offset), rowAt(offset + 1)];
    return { totals: { human: 9, ai: 0, total: 9 }, visitors, hasMore: true };
  };
  const store = openStore(pathToFileURL(await mkdtemp(join(tmpdir(), 'agent-jobs-turns-'))).href);
  const { prepareExport, readChunk } = createExportActivities({
    upstream: { getVisitors } as Upstream,
    store,
    shutdownSignal: new AbortController().signal,
    requestsPerHour: 24,
  });
  const environment = new MockActivityEnvironment({}, { client: server.client });
  expect(await environment.run(prepareExport, { range })).toMatchObject({ expectedRows: null, asked: null });
  const result = await environment.run(readChunk, chunk);
  expect(requests).toBe(2);
  expect(result).toMatchObject({ requests: 2, paceMs: 5 * MINUTE_MS, asked: null });
});

test('the queue is told of this hour what chunks met that had waited hours for a worker', async () => {
  const startedAt = Date.now();
  const told: (RequestReport & BudgetFacts)[] = [];
  let isFull = false;
  const getVisitors: Upstream['getVisitors'] = async () => {
    if (isFull) throw new ReadFailedError('429', 429);
    return { totals: { human: 0, ai: 0, total: 0 }, visitors: [], hasMore: false };
  };
  const store = openStore(pathToFileURL(await mkdtemp(join(tmpdir(), 'agent-jobs-turns-'))).href);
  const shutdownSignal = new AbortController().signal;
  const { readChunk } = createExportActivities({ upstream: { getVisitors } as Upstream, store, shutdownSignal });
  const signal = (_: unknown, report: RequestReport & BudgetFacts) => Promise.resolve(void told.push(report));
  const call = <T>(_: unknown, work: () => T) => work();
  const client = { withAbortSignal: call, withDeadline: call, workflow: { getHandle: () => ({ signal }) } };
  const read = (hoursAgo: number) => {
    const info = { currentAttemptScheduledTimestampMs: startedAt - hoursAgo * HOUR_MS };
    return new MockActivityEnvironment(info, { client: client as unknown as Client }).run(readChunk, chunk);
  };
  await read(3);
  isFull = true;
  await read(2);
  const [{ at, outcome, accepted = [] }] = told as [RequestReport & BudgetFacts];
  expect({ outcome, requests: accepted.map(([, count]) => count) }).toEqual({ outcome: 'throttled', requests: [2] });
  // A tick of the clocks, which are not read at once.
  for (const time of [at, ...accepted.map(([when]) => when)]) expect(time).toBeGreaterThan(startedAt - MINUTE_MS);
});

/**
 * What a worker learns from attempts that had waited hours for it, as after an outage. Here the server schedules each
 * of them now, and an interceptor makes it hours ago.
 */
import { randomUUID } from 'node:crypto';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { afterEach, expect, test } from 'vitest';
import { requestTurnSignal } from '../../src/contract.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { ObservedUpstream } from '../support/observed-upstream.js';
import { throttled } from '../support/outcomes.js';
import { ProjectQueue } from '../support/project-queue.js';
import { useForFile } from '../support/use.js';

const HOUR = 3_600_000;

const server = useForFile(connectDevServer);
let bench: JobBench;
/** The next attempts were scheduled this time ago, as far as they know. */
let waitedMs: number;

afterEach(() => bench.stop());

const afterWaiting: ActivityInterceptorsFactory = ({ info }) => {
  if (info.attempt > 1) return {};
  (info as { currentAttemptScheduledTimestampMs: number }).currentAttemptScheduledTimestampMs -= waitedMs;
  return {};
};

test('a 429 that an old attempt met holds the jobs that are started since, as any other', async () => {
  const upstream = new ObservedUpstream();
  bench = await startJobBench(server, upstream, { worker: { interceptors: { activity: [afterWaiting] } } });
  const projectId = `p ${randomUUID()}`;
  const queue = new ProjectQueue(server.client, bench.taskQueue, projectId);
  const start = (prompt: string) => bench.start({ projectId, prompt });

  waitedMs = 3 * HOUR;
  upstream.createFaults.push(throttled('upstream answered 429', HOUR));
  await start('one too many');
  await expect.poll(() => upstream.created.length).toBe(1);
  waitedMs = 0;
  for (let i = 0; i < 3; i++) await start(`of the next ${i}`);

  const state = () => queue.state().catch(() => null);
  await expect.poll(state).toMatchObject({ waitingCount: 4 });
  expect(await state()).toMatchObject({
    throttledLastHour: 1,
    inFlight: 0,
    notBefore: expect.any(String),
  });
  expect(upstream.created).toHaveLength(1);
});

test('a turn that ended while its write waited for a worker is not used', async () => {
  const upstream = new ObservedUpstream();
  waitedMs = 0;
  bench = await startJobBench(server, upstream, { worker: { interceptors: { activity: [afterWaiting] } } });
  const projectId = `p ${randomUUID()}`;
  const queue = new ProjectQueue(server.client, bench.taskQueue, projectId);
  await queue.usedUp(1, HOUR);
  const handle = await bench.start({ projectId, prompt: 'Fix it' });
  const writes = async () =>
    (await handle.fetchHistory()).events!.filter(({ activityTaskCompletedEventAttributes: done }) => done).length;
  // It has its place before its attempt has ended, and a turn that comes within the attempt is dropped if it is over.
  await expect.poll(writes).toBe(1);
  expect(await queue.placeOf(handle.workflowId)).toMatchObject({ position: 1 });

  waitedMs = HOUR / 2;
  await handle.signal(requestTurnSignal, {
    operation: 'create',
    id: 'of-before:1',
    until: Date.now() - HOUR / 4,
    requests: 1,
  });
  await expect.poll(writes).toBeGreaterThanOrEqual(2);
  expect(upstream.created).toEqual([]);
  expect(await queue.placeOf(handle.workflowId)).toMatchObject({ position: 1 });
});

import type { WorkflowHandle } from '@temporalio/client';
import { expect, test } from 'vitest';
import { followUpSignal } from '../../src/contract.js';
import { jobOptions } from '../../src/worker/workers.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { useForFile } from '../support/use.js';

const PER_SECOND = 4;
const JOBS = 60;
const PATIENCE = { timeout: 120_000, interval: 20 };

const server = useForFile(connectDevServer);

/** When the server had an activity to hand out, and when a worker took it. */
async function waitOf(handle: WorkflowHandle, type: string): Promise<[from: number, to: number]> {
  const times = async () => {
    const { events } = await handle.fetchHistory();
    const scheduled = events!.find((each) => each.activityTaskScheduledEventAttributes?.activityType?.name === type);
    const started = events!.find(
      ({ activityTaskStartedEventAttributes: task }) =>
        task && Number(task.scheduledEventId) === Number(scheduled?.eventId),
    );
    if (!started) return null;
    return [scheduled!, started].map(({ eventTime: at }) => Number(at!.seconds) * 1_000 + at!.nanos! / 1_000_000);
  };
  await expect.poll(times, PATIENCE).not.toBeNull();
  return (await times()) as [number, number];
}

test('under UPSTREAM_REQUESTS_PER_SECOND a create and a follow-up go before the polls that wait', async () => {
  const upstream = new ScriptedUpstream();
  const readAt: number[] = [];
  upstream.show = () => (readAt.push(Date.now()), { status: 'active' });
  const { maxTaskQueueActivitiesPerSecond: limit = 0 } = jobOptions({ upstreamRequestsPerSecond: PER_SECOND });
  const bench = await startJobBench(server, upstream, { worker: { maxTaskQueueActivitiesPerSecond: limit } });
  try {
    const watched = await Promise.all(
      Array.from({ length: JOBS }, (_, i) => bench.start({ projectId: 'p1', jobId: `job ${i}` })),
    );
    await expect.poll(() => upstream.reads, PATIENCE).toBeGreaterThan(5);
    const created = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
    await watched[0]!.signal(followUpSignal, { prompt: 'go on' });
    await expect.poll(() => [upstream.created.length, upstream.messages.length], PATIENCE).toEqual([1, 1]);
    for (const [handle, write] of [
      [created, 'createJob'],
      [watched[0]!, 'sendMessage'],
    ] as const) {
      const [from, to] = await waitOf(handle, write);
      // Some were on their way to the worker; dozens still wait.
      expect(readAt.filter((at) => at > from && at < to).length).toBeLessThanOrEqual(20);
    }
  } finally {
    await bench.stop();
  }
});

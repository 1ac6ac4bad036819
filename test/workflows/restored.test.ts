/**
 * What the setting `CONFIRM_WRITES_BEFORE` does to each write; the restore itself is in
 * test/e2e/disaster-recovery.test.ts.
 */
import { randomUUID } from 'node:crypto';
import type { agentJob } from '../../src/workflows/index.js';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate, type ResolveUnknownInput } from '../../src/contract.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { throttled } from '../support/outcomes.js';
import { ObservedUpstream } from '../support/observed-upstream.js';
import { useForFile } from '../support/use.js';

type Handle = Awaited<ReturnType<JobBench['start']>>;

const server = useForFile(connectDevServer);
let upstream: ObservedUpstream;
let bench: JobBench | undefined;
let taskQueue: string;

beforeEach(() => {
  taskQueue = `test-${randomUUID()}`;
  upstream = new ObservedUpstream();
  upstream.show = () => ({ status: 'active' });
});
afterEach(async () => {
  await bench?.stop();
  bench = undefined;
});

/** Starts a worker for which the time is so far ahead, or behind if negative, in place of the one before. */
async function startWorker(aheadMs: number): Promise<JobBench> {
  const confirmWritesBefore = new Date(Date.now() + aheadMs).toISOString();
  await bench?.stop();
  bench = await startJobBench(server, upstream, { confirmWritesBefore, taskQueue });
  return bench;
}

async function start(input: object, aheadMs: number): Promise<Handle> {
  const { start: startJob } = await startWorker(aheadMs);
  return startJob({ projectId: 'restored', prompt: 'Fix it', settle: 0, ...input });
}

const stateOf = (handle: Handle) => handle.query(jobStateQuery);
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
const restored = { reason: expect.stringContaining('restored') as string };

test.each(['ask', 'fail', 'retry'])(
  'a create asked for before the time asks a person before it is sent, whatever the policy (%s)',
  async (onUnknownOutcome) => {
    const handle = await start({ onUnknownOutcome }, 60_000);
    await expect.poll(async () => (await stateOf(handle)).unknown).toMatchObject({ kind: 'create', ...restored });
    expect(upstream.created).toHaveLength(0);
    await resolve(handle, { action: 'retry' });
    await expect.poll(async () => (await stateOf(handle)).phase).toBe('watching');
    expect(upstream.created).toHaveLength(1);
  },
);

test('a retry that a person said before the restore counts for nothing after it', async () => {
  await startWorker(60_000);
  // Not through the bench, which ends its jobs with itself.
  const handle = await server.client.workflow.start<typeof agentJob>('agentJob', {
    taskQueue,
    workflowId: `agent-job/test/${taskQueue}`,
    args: [{ projectId: `restored ${taskQueue}`, prompt: 'Fix it' }],
  });
  upstream.createFaults.push(throttled('upstream answered 429', 1_000));
  await expect.poll(async () => (await stateOf(handle)).unknown).toMatchObject(restored);
  await resolve(handle, { action: 'retry' });
  await expect.poll(() => upstream.createFaults.length).toBe(0);
  await startWorker(120_000);
  await expect.poll(async () => (await stateOf(handle)).unknown).toMatchObject(restored);
  expect(upstream.created).toHaveLength(1); // the one that was throttled
  await handle.terminate();
});

test('a write asked for after the time is sent without asking', async () => {
  const handle = await start({}, -60_000);
  await expect.poll(async () => (await stateOf(handle)).phase).toBe('watching');
  await handle.signal(followUpSignal, { prompt: 'one', id: 'a' });
  await expect.poll(async () => (await stateOf(handle)).followUps[0]?.state).toBe('sent');
  expect(upstream.created).toHaveLength(1);
});

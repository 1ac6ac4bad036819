/** Writes that wait for a 429 to end: what that costs, and what ends it. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowFailedError, WorkflowHandle } from '@temporalio/client';
import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, type JobState, type Waiting } from '../../src/contract.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { throttled } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { useForFile } from '../support/use.js';

const HOUR = 3_600_000;

const server = useForFile(connectDevServer);

const tooMany = (ms: number) => throttled('upstream answered 429', ms);

/** A project that the upstream has asked to come back in an hour, and a create and a message of it that wait. */
async function withClosedProject(
  work: (parts: { bench: JobBench; upstream: ScriptedUpstream; projectId: string }) => Promise<void>,
) {
  const upstream = new ScriptedUpstream();
  upstream.show = () => ({ status: 'active' });
  const bench = await startJobBench(server, upstream);
  const projectId = `p ${randomUUID()}`;
  try {
    upstream.createFaults.push(tooMany(HOUR));
    upstream.messageFaults.push(tooMany(HOUR));
    await bench.start({ projectId, prompt: 'The one that was refused' });
    const first = await bench.start({ projectId, jobId: 'first' });
    await first.signal(followUpSignal, { prompt: 'The one that was refused' });
    await expect.poll(() => [upstream.created.length, upstream.messages.length]).toEqual([1, 1]);
    await work({ bench, upstream, projectId });
    expect(upstream.created).toHaveLength(1);
    expect(upstream.messages).toEqual(['The one that was refused']);
  } finally {
    await bench.stop();
  }
}

async function untilItWaits(handle: WorkflowHandle): Promise<Waiting> {
  const waiting = async () => (await handle.query<JobState>(jobStateQuery.name)).waiting;
  await expect.poll(async () => (await waiting())?.position).toBeGreaterThan(0);
  return (await waiting())!;
}

const endOf = (handle: WorkflowHandle) =>
  handle.result().then(
    ({ outcome }: { outcome: string }) => outcome,
    (error: WorkflowFailedError) => error.cause?.name,
  );

test('a create that waits outlives its deadline, and ends at the end of startWithin', () =>
  withClosedProject(async ({ bench, projectId }) => {
    const options = { projectId, deadline: '2 seconds' };
    const handle = await bench.start({ ...options, prompt: 'Fix it', startWithin: '15 seconds' });
    const patient = await bench.start({ ...options, prompt: 'Fix that' });
    await untilItWaits(handle);
    const result = await handle.result();
    expect(result).toMatchObject({ outcome: 'timedOut', jobId: null, job: null });
    expect(Date.parse(result.finishedAt) - Date.parse(result.startedAt)).toBeGreaterThanOrEqual(15_000);
    expect(await patient.query(jobStateQuery)).toMatchObject({ phase: 'creating', jobId: null });
  }));

test('a follow-up that waits outlives the deadline while the job is read on, and a cancellation abandons it', () =>
  withClosedProject(async ({ bench, upstream, projectId }) => {
    const options = { polling: { max: '1 second' }, deadline: '12 seconds' };
    const handle = await bench.start({ projectId, jobId: 'second', ...options });
    await handle.signal(followUpSignal, { prompt: 'go on', id: 'one' });
    await untilItWaits(handle);
    await sleep(12_000);
    const before = upstream.reads;
    await expect.poll(() => upstream.reads).toBeGreaterThan(before + 2);
    expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'sending', jobId: 'second' });
    await handle.cancel();
    expect(await endOf(handle)).toBe('CancelledFailure');
    const { followUps, usedFollowUpIds } = await handle.query(jobStateQuery);
    expect([followUps, usedFollowUpIds]).toEqual([[{ id: 'one', state: 'abandoned' }], []]);
  }));

import { WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import type { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import {
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  type ResolveUnknownInput,
} from '../../src/contract.js';
import { inDoubt, rejected } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

/*
 * Not on the time-skipping server: it refuses, for ever, a task that cancels a poll which ends at that moment
 * (`ACTIVITY_UNKNOWN`), and a decision about a follow-up cancels the poll that runs beside it.
 */
const tests = useDevServer();
const unknown = () => inDoubt('upstream answered 500');
const input = { projectId: 'p1', prompt: 'Fix it', settle: 0, polling: { max: '1 second' } };

type Handle = Awaited<ReturnType<typeof tests.bench.start>>;
const stateOf = (handle: Handle) => handle.query(jobStateQuery);
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
const causeOf = async (handle: Handle) =>
  ((await handle.result().catch((e: unknown) => e)) as WorkflowFailedError).cause as ApplicationFailure;

async function startUnknownFollowUp(options: object = {}): Promise<Handle> {
  const { upstream, bench } = tests;
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(unknown());
  const handle = await bench.start({ ...input, ...options });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await expect.poll(async () => (await stateOf(handle)).phase).toBe('needsAttention');
  return handle;
}

/** Lets the job be polled a few times more. */
async function untilPolled(times: number): Promise<void> {
  const { upstream } = tests;
  const before = upstream.reads;
  await expect.poll(() => upstream.reads, { timeout: 120_000 }).toBeGreaterThanOrEqual(before + times);
}

test('a resolution that does not fit is rejected before it is recorded', async () => {
  const handle = await startUnknownFollowUp();
  const wrong: unknown[] = [
    { action: 'adopt', jobId: 'j' },
    { action: 'guess' },
    { action: 'retry', since: '2020-01-01T00:00:00.000Z' },
    { action: 'retry', since: '' },
    { action: 'retry', followUpId: 'b' },
    { action: 'retry', followUpId: '' },
    {},
    null,
    'retry',
  ];
  for (const resolution of wrong) {
    await expect(resolve(handle, resolution as ResolveUnknownInput)).rejects.toThrow(WorkflowUpdateFailedError);
  }
  const { events } = await handle.fetchHistory();
  expect(events!.some((e) => e.workflowExecutionUpdateAcceptedEventAttributes)).toBe(false);
  const { unknown: present } = await stateOf(handle);
  tests.upstream.show = () => ({ status: 'completed' });
  await resolve(handle, { action: 'delivered', since: present!.since, followUpId: 'a' });
  await expect(resolve(handle, { action: 'delivered' })).rejects.toThrow();
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(tests.upstream.messages).toEqual(['go']);
});

test('a terminal status does not end the run while a follow-up is unknown, and pollNow still reads', async () => {
  const { upstream } = tests;
  // No other poll is due in the whole test.
  const handle = await startUnknownFollowUp({ polling: { min: '1 hour' } });
  upstream.show = () => ({ status: 'completed', prLink: 'https://pr' });
  for (let polls = 1; polls <= 3; polls++) {
    const before = upstream.reads;
    await handle.signal(pollNowSignal);
    await expect.poll(() => upstream.reads).toBeGreaterThan(before);
    await expect.poll(async () => (await stateOf(handle)).job?.status).toBe('completed');
    expect((await stateOf(handle)).phase).toBe('needsAttention');
  }
  await resolve(handle, { action: 'abandon' });
  expect(await handle.result()).toMatchObject({
    outcome: 'completed',
    followUps: [{ id: 'a', state: 'unknown' }],
    usedFollowUpIds: ['a'],
  });
});

test('nothing else is written while a follow-up is unknown', async () => {
  const { upstream } = tests;
  const handle = await startUnknownFollowUp();
  await handle.signal(followUpSignal, { prompt: 'next', id: 'b' });
  await untilPolled(3);
  expect(upstream.messages).toEqual(['go']);
  upstream.show = () => ({ status: 'completed' });
  await resolve(handle, { action: 'retry' });
  expect(await handle.result()).toMatchObject({
    followUps: [
      { id: 'a', state: 'sent' },
      { id: 'b', state: 'sent' },
    ],
  });
  expect(upstream.messages).toEqual(['go', 'go', 'next']);
});

test('cancelling while a follow-up is unknown ends the run, the follow-up stays unknown', async () => {
  const handle = await startUnknownFollowUp();
  await handle.signal(followUpSignal, { prompt: 'next', id: 'b' });
  await handle.cancel();
  await expect(handle.result()).rejects.toThrow(WorkflowFailedError);
  expect((await handle.describe()).status.name).toBe('CANCELLED');
  expect(await stateOf(handle)).toMatchObject({
    phase: 'done',
    followUps: [
      { id: 'a', state: 'unknown' },
      { id: 'b', state: 'abandoned' },
    ],
    usedFollowUpIds: ['a'],
  });
});

test('policy fail ends a follow-up as UnknownOutcome, and what waited behind it was never sent', async () => {
  const { upstream, bench } = tests;
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(unknown());
  const { opened, open } = gate();
  upstream.createGate = opened;
  const handle = await bench.start({ ...input, onUnknownOutcome: 'fail' });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await handle.signal(followUpSignal, { prompt: 'next', id: 'b' });
  open();
  const cause = await causeOf(handle);
  expect(cause.type).toBe('UnknownOutcome');
  expect(cause.details).toEqual([
    { kind: 'followUp', jobId: 'job-1', followUpId: 'a', reason: expect.stringContaining('500') },
  ]);
  expect((await stateOf(handle)).followUps).toEqual([
    { id: 'a', state: 'unknown', error: expect.any(String) },
    { id: 'b', state: 'abandoned' },
  ]);
  expect(upstream.messages).toEqual(['go']);
});

test('policy retry of a follow-up leaves those behind it abandoned, not unknown, when it gives up', async () => {
  const { upstream, bench } = tests;
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(...Array.from({ length: 9 }, unknown));
  const handle = await bench.start({ ...input, onUnknownOutcome: 'retry' });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await handle.signal(followUpSignal, { prompt: 'next', id: 'b' });
  expect((await causeOf(handle)).type).toBe('UnknownOutcome');
  expect((await stateOf(handle)).followUps.map(({ state }) => state)).toEqual(['unknown', 'abandoned']);
  expect(upstream.messages).toEqual(['go', 'go', 'go', 'go', 'go']);
});

test('a follow-up refused after a person said retry stays unknown: the first send may have arrived', async () => {
  const { upstream } = tests;
  const handle = await startUnknownFollowUp();
  upstream.messageFaults.push(rejected(409, 'archived'));
  await resolve(handle, { action: 'retry' });
  await expect.poll(async () => (await stateOf(handle)).phase).toBe('watching');
  upstream.show = () => ({ status: 'completed' });
  expect(await handle.result()).toMatchObject({
    outcome: 'completed',
    followUps: [{ id: 'a', state: 'unknown', error: expect.stringContaining('409') }],
  });
});

test('decideWithin ends the wait: a follow-up stays unknown and the watch goes on', async () => {
  const { upstream } = tests;
  const handle = await startUnknownFollowUp({ decideWithin: '10 seconds' });
  const { since } = (await stateOf(handle)).unknown!;
  await handle.signal(followUpSignal, { prompt: 'next', id: 'b' });
  upstream.show = () => ({ status: upstream.messages.length > 1 ? 'completed' : 'active' });
  expect(await handle.result()).toMatchObject({
    outcome: 'completed',
    followUps: [
      { id: 'a', state: 'unknown' },
      { id: 'b', state: 'sent' },
    ],
    usedFollowUpIds: ['a', 'b'],
  });
  expect(upstream.messages).toEqual(['go', 'next']);
  // Nothing else was written before the time was over.
  expect(upstream.messageTimes[1]! - Date.parse(since)).toBeGreaterThanOrEqual(10_000);
});

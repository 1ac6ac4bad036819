import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { afterEach, expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import type { agentJob } from '../../src/workflows/index.js';
import { inDoubt } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';
import { resetRun, TASK_COMPLETED } from '../support/reset.js';

const { server, upstream, bench } = useDevServer();
let opened: (() => void) | undefined;
afterEach(() => opened?.());

/** Answers with the new run. */
async function reset(
  handle: WorkflowHandle<typeof agentJob>,
  choose: (completedTasks: number[]) => number,
): Promise<WorkflowHandle<typeof agentJob>> {
  const runId = await resetRun(server, handle.workflowId, choose);
  return server.client.workflow.getHandle(handle.workflowId, runId);
}

const phaseOf = async (handle: WorkflowHandle<typeof agentJob>) => (await handle.query(jobStateQuery)).phase;

test.each(['ask', 'fail', 'retry'])(
  'a reset to before the create asks a person, whatever the policy (%s)',
  async (onUnknownOutcome) => {
    upstream.show = () => ({ status: 'active' });
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', onUnknownOutcome, settle: 0 });
    await expect.poll(() => upstream.reads).toBeGreaterThan(0);
    const again = await reset(handle, (done) => done[0]!);
    await expect.poll(() => phaseOf(again)).toBe('needsAttention');
    expect((await again.query(jobStateQuery)).unknown).toMatchObject({
      kind: 'create',
      reason: expect.stringContaining('reset'),
    });
    expect(upstream.created).toHaveLength(1);
    upstream.show = () => ({ status: 'completed' });
    await again.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
    expect(await again.result()).toMatchObject({ outcome: 'completed', jobId: 'job-2' });
    expect(upstream.created).toHaveLength(2);
  },
);

test('follow-ups of a reset run ask one after the other, those said after the reset too', async () => {
  upstream.show = () => ({ status: 'active' });
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', onUnknownOutcome: 'retry', settle: 0 });
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  await handle.signal(followUpSignal, { prompt: 'one', id: 'a' });
  await expect.poll(async () => (await handle.query(jobStateQuery)).followUps[0]?.state).toBe('sent');
  const tasksBeforeSignal = await tasksBefore(handle, (type) => type === SIGNALED);
  const again = await reset(handle, () => tasksBeforeSignal);
  await expect.poll(() => phaseOf(again)).toBe('needsAttention');
  expect((await again.query(jobStateQuery)).unknown).toMatchObject({ kind: 'followUp', followUpId: 'a' });
  expect(upstream.messages).toEqual(['one']);
  await again.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'delivered', followUpId: 'a' }] });
  await again.signal(followUpSignal, { prompt: 'two', id: 'b' });
  await expect.poll(async () => (await again.query(jobStateQuery)).unknown?.followUpId).toBe('b');
  expect(upstream.messages).toEqual(['one']);
  await again.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
  upstream.show = () => ({ status: 'completed' });
  expect(await again.result()).toMatchObject({ outcome: 'completed', usedFollowUpIds: ['a', 'b'] });
  expect(upstream.messages).toEqual(['one', 'two']);
});

test('a write that was in flight at the reset point is not sent again without asking', async () => {
  upstream.show = () => ({ status: 'active' });
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', onUnknownOutcome: 'retry', settle: 0 });
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  const { opened: answered, open } = gate();
  opened = open;
  upstream.messageGate = answered;
  await handle.signal(followUpSignal, { prompt: 'one', id: 'a' });
  await expect.poll(() => upstream.messages.length).toBe(1);
  // Another workflow task while the message is under way: the reset goes to it.
  await handle.signal(followUpSignal, { prompt: 'two', id: 'b' });
  await expect.poll(async () => (await handle.query(jobStateQuery)).followUps.length).toBe(2);
  upstream.messageGate = undefined;
  const again = await reset(handle, (done) => done.at(-1)!);
  await expect.poll(() => phaseOf(again)).toBe('needsAttention');
  expect((await again.query(jobStateQuery)).unknown).toMatchObject({ kind: 'followUp', followUpId: 'a' });
  expect(upstream.messages).toEqual(['one']);
  open();
  // Without its worker it would hold up other tests that ask this server for jobs that need attention.
  await again.terminate();
});

test.each([
  ['create', 'job-3'],
  ['followUp', 'job-1'],
] as const)(
  'a reset to before a person said retry of a %s asks again: the decision is repeated, the write is not',
  async (kind, jobId) => {
    upstream.show = () => ({ status: 'active' });
    const isCreate = kind === 'create';
    (isCreate ? upstream.createFaults : upstream.messageFaults).push(inDoubt('upstream answered 500'));
    const sends = isCreate ? upstream.created : upstream.messages;
    const handle = await bench.start({ projectId: `p ${randomUUID()}`, prompt: 'Fix it', settle: 0 });
    if (!isCreate) await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
    await expect.poll(() => phaseOf(handle)).toBe('needsAttention');
    const retry = (run: typeof handle | Awaited<ReturnType<typeof reset>>) =>
      run.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
    await retry(handle);
    await expect.poll(() => phaseOf(handle)).toBe('watching');
    expect(sends).toHaveLength(2);
    const taskBefore = await tasksBefore(handle, (type) => type === UPDATE_ACCEPTED);
    const again = await reset(handle, () => taskBefore);
    await expect.poll(() => accepted(again)).toBe(1);
    await expect
      .poll(async () => (await again.query(jobStateQuery)).unknown)
      .toMatchObject({ kind, reason: expect.stringContaining('reset') });
    expect(sends).toHaveLength(2);
    await retry(again);
    await expect.poll(() => phaseOf(again)).toBe('watching');
    expect(sends).toHaveLength(3);
    // The reset of a reset repeats both decisions.
    const secondTask = await tasksBefore(again, (type) => type === UPDATE_ACCEPTED, -1);
    const third = await reset(again, () => secondTask);
    await expect.poll(() => accepted(third)).toBe(2);
    await expect.poll(async () => (await third.query(jobStateQuery)).unknown?.reason).toContain('reset');
    expect(sends).toHaveLength(3);
    await third.executeUpdate(resolveUnknownUpdate, {
      args: [isCreate ? { action: 'adopt', jobId } : { action: 'delivered' }],
    });
    upstream.show = () => ({ status: 'completed' });
    expect(await third.result()).toMatchObject({ outcome: 'completed', jobId });
  },
);

const UPDATE_ACCEPTED = 41;

async function accepted(handle: WorkflowHandle<typeof agentJob>): Promise<number> {
  const { events } = await handle.fetchHistory();
  return events!.filter((e) => e.eventType === UPDATE_ACCEPTED).length;
}

const SIGNALED = 26;

/** The last workflow task completed before the first (or last) event of a kind. */
async function tasksBefore(
  handle: WorkflowHandle<typeof agentJob>,
  isIt: (type: number) => boolean,
  which: 0 | -1 = 0,
): Promise<number> {
  const events = (await handle.fetchHistory()).events!;
  const until = events.indexOf(events.filter((e) => isIt(e.eventType as number)).at(which)!);
  const before = events.slice(0, until).filter((e) => e.eventType === TASK_COMPLETED);
  return Number(before.at(-1)!.eventId);
}

import type { WorkflowFailedError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/client';
import { expect, test } from 'vitest';
import { jobStateQuery, pollNowSignal, resolveUnknownUpdate } from '../../src/contract.js';
import { keyOf } from '../../src/agent-job/start-options.js';
import { inDoubt, rejected } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

const { upstream, bench } = useDevServer();
const input = { projectId: 'cancel', prompt: 'Fix it', settle: 0 };
type Handle = Awaited<ReturnType<typeof bench.start>>;

async function expectCanceled(handle: Handle): Promise<void> {
  const error = await handle.result().catch((e: unknown) => e);
  expect((error as WorkflowFailedError).cause).toBeInstanceOf(CancelledFailure);
  expect((await handle.describe()).status.name).toBe('CANCELLED');
}

test('a create in flight is finished first: its job id stays readable', async () => {
  const { opened, open } = gate();
  upstream.createGate = opened;
  const handle = await bench.start(input);
  await expect.poll(() => upstream.created.length).toBe(1);
  await handle.cancel();
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect((await handle.describe()).status.name).toBe('RUNNING');
  open();
  await expectCanceled(handle);
  expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'done', jobId: 'job-1' });
  const { typedSearchAttributes } = await handle.describe();
  expect(typedSearchAttributes.get(keyOf('jobId'))).toBe('job-1');
  expect(upstream.reads).toBe(0);
});

test('a stream of pollNow neither starves the reads of a slow upstream nor reads more than once a second', async () => {
  let over = false;
  upstream.show = () => ({ status: over ? 'completed' : 'active' });
  const slow = () => new Promise<void>((resolve) => setTimeout(resolve, 1_500));
  const handle = await bench.start(input);
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  over = true;
  const startedAt = Date.now();
  const readsBefore = upstream.reads;
  let isEnded = false;
  const ended = handle.result().then(() => (isEnded = true));
  while (!isEnded && Date.now() - startedAt < 40_000) {
    upstream.readGate = slow();
    await handle.signal(pollNowSignal).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  expect(isEnded).toBe(true);
  await ended;
  expect(upstream.reads - readsBefore).toBeLessThanOrEqual(Math.ceil((Date.now() - startedAt) / 1_000) + 1);
});

test.each(['ask', 'fail', 'retry'] as const)(
  'under policy %s a cancelled job still shows that its create may have made a job',
  async (onUnknownOutcome) => {
    const { opened, open } = gate();
    upstream.createGate = opened;
    upstream.createFaults.push(inDoubt('no answer'));
    const handle = await bench.start({ ...input, onUnknownOutcome });
    await expect.poll(() => upstream.created.length).toBe(1);
    await handle.cancel();
    open();
    await expectCanceled(handle);
    const state = await handle.query(jobStateQuery);
    expect(state).toMatchObject({ phase: 'done', jobId: null, unknown: { kind: 'create', reason: 'no answer' } });
    expect(upstream.created).toHaveLength(1);
  },
);

async function retryOnceAsked(handle: Handle): Promise<void> {
  await expect.poll(async () => (await handle.query(jobStateQuery)).phase).toBe('needsAttention');
  await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
}

test.each(['ask', 'retry'] as const)(
  'under policy %s a create refused after a cancellation still shows that an earlier send may have made a job',
  async (onUnknownOutcome) => {
    const { opened, open } = gate();
    upstream.createFaults.push(inDoubt('no answer'), rejected(409, 'exists'));
    const handle = await bench.start({ ...input, onUnknownOutcome });
    await expect.poll(() => upstream.created.length).toBe(1);
    upstream.createGate = opened;
    if (onUnknownOutcome === 'ask') await retryOnceAsked(handle);
    await expect.poll(() => upstream.created.length).toBe(2);
    await handle.cancel();
    open();
    await expectCanceled(handle);
    const state = await handle.query(jobStateQuery);
    expect(state).toMatchObject({ phase: 'done', jobId: null, unknown: { kind: 'create' } });
  },
);

import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import { inDoubt, rejected } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

const tests = useDevServer();

async function cancellation(result: Promise<unknown>): Promise<unknown> {
  const error = await result.catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WorkflowFailedError);
  return (error as WorkflowFailedError).cause;
}

test.each(['ask', 'fail', 'retry'] as const)(
  'under policy %s a cancelled job still tells that its create may have made a job',
  async (onUnknownOutcome) => {
    const { upstream, bench } = tests;
    const { opened, open } = gate();
    upstream.createGate = opened;
    upstream.createFaults.push(inDoubt('no answer'));
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', onUnknownOutcome });
    await expect.poll(() => upstream.created.length).toBe(1);
    await handle.cancel();
    open();
    expect(await cancellation(handle.result())).toBeInstanceOf(CancelledFailure);
    const state = await handle.query(jobStateQuery);
    expect(state).toMatchObject({ phase: 'done', jobId: null, unknown: { kind: 'create', reason: 'no answer' } });
    expect(upstream.created).toHaveLength(1);
  },
);

async function retryOnceAsked(handle: WorkflowHandle): Promise<void> {
  await expect.poll(async () => (await handle.query(jobStateQuery)).phase).toBe('needsAttention');
  await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
}

test.each(['ask', 'retry'] as const)(
  'under policy %s a create refused after a cancellation still tells that an earlier send may have made a job',
  async (onUnknownOutcome) => {
    const { upstream, bench } = tests;
    const { opened, open } = gate();
    upstream.createFaults.push(inDoubt('no answer'), rejected(409, 'exists'));
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', onUnknownOutcome });
    await expect.poll(() => upstream.created.length).toBe(1);
    upstream.createGate = opened;
    if (onUnknownOutcome === 'ask') await retryOnceAsked(handle);
    await expect.poll(() => upstream.created.length).toBe(2);
    await handle.cancel();
    open();
    expect(await cancellation(handle.result())).toBeInstanceOf(CancelledFailure);
    const state = await handle.query(jobStateQuery);
    expect(state).toMatchObject({ phase: 'done', jobId: null, unknown: { kind: 'create' } });
  },
);

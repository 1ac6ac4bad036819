import type { WorkflowFailedError } from '@temporalio/client';
import type { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { followUpSignal } from '../../src/contract.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { inDoubt, notDelivered, throttled } from '../support/outcomes.js';
import { useSkippedTime } from '../support/job-tests.js';

const tests = useSkippedTime();
const HOUR = 3_600_000;
const input = { projectId: 'p1', prompt: 'Fix it', onUnknownOutcome: 'retry' };
const unknown = () => inDoubt('upstream answered 500');
const OBSTACLES: Record<string, () => WriteOutcome> = {
  throttled: () => throttled('429', 50 * 60_000),
  'not delivered': () => notDelivered('connection refused'),
};
const always = (make: () => WriteOutcome) => Array.from({ length: 20_000 }, make);

type Handle = Awaited<ReturnType<typeof tests.bench.start>>;

/** How the run failed, and after how many milliseconds. */
async function failureOf(handle: Handle): Promise<{ cause: ApplicationFailure; lastedMs: number }> {
  const error = await handle.result().then(
    (result) => expect.fail(`ended as ${result.outcome}`),
    (e: unknown) => e as WorkflowFailedError,
  );
  const { startTime, closeTime } = await handle.describe();
  return { cause: error.cause as ApplicationFailure, lastedMs: closeTime!.getTime() - startTime.getTime() };
}

test.each([
  ['whatever its deadline', '2 hours'],
  ['also where its deadline passed before', 0],
])('a create in doubt that is throttled from then on is sent in its turn, %s', async (_, deadline) => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(unknown(), ...Array.from({ length: 3 }, OBSTACLES['throttled']!));
  const handle = await bench.start({ ...input, deadline });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', jobId: 'job-5' });
  expect(Date.parse(result.finishedAt) - Date.parse(result.startedAt)).toBeGreaterThanOrEqual(2.5 * HOUR);
});

test.each(['not delivered'])(
  'a create in doubt that is %s from then on ends at the deadline as UnknownOutcome',
  async (obstacle) => {
    const { upstream, bench } = tests;
    upstream.createFaults.push(unknown(), ...always(OBSTACLES[obstacle]!));
    const handle = await bench.start({ ...input, deadline: '2 hours' });
    const { cause, lastedMs } = await failureOf(handle);
    expect(cause.type).toBe('UnknownOutcome');
    expect(cause.details).toEqual([
      { kind: 'create', jobId: null, followUpId: null, reason: expect.stringContaining('an earlier send') },
    ]);
    expect(lastedMs).toBeGreaterThanOrEqual(2 * HOUR);
    expect(lastedMs).toBeLessThan(3 * HOUR);
  },
);

test.each(['not delivered'])(
  'a follow-up in doubt that is %s from then on ends with the run at the deadline, and stays unknown',
  async (obstacle) => {
    const { upstream, bench } = tests;
    upstream.show = () => ({ status: 'active' });
    upstream.messageFaults.push(unknown(), ...always(OBSTACLES[obstacle]!));
    const handle = await bench.start({ ...input, deadline: '2 hours', polling: { min: '10 minutes' } });
    await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
    const result = await handle.result();
    expect(result).toMatchObject({
      outcome: 'timedOut',
      followUps: [{ id: 'a', state: 'unknown' }],
      usedFollowUpIds: ['a'],
    });
    expect(Date.parse(result.finishedAt) - Date.parse(result.startedAt)).toBeLessThan(4 * HOUR);
  },
);

import { randomUUID } from 'node:crypto';
import type { WorkflowFailedError } from '@temporalio/client';
import type { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { inDoubt, notDelivered, throttled } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { skipTime } from '../support/skip-time.js';

const { upstream, bench } = useDevServer();
const HOUR = 3_600_000;
/** In a project of this file: a queue that a 429 begins would hold the jobs of other files. */
const input = { projectId: `p ${randomUUID()}`, prompt: 'Fix it', onUnknownOutcome: 'retry' };
/** In doubt once, and never delivered from then on. */
const outage = () => [inDoubt('500'), ...Array.from({ length: 1_000 }, () => notDelivered('connection refused'))];

test.each([
  ['whatever its deadline', '1 second'],
  ['also where its deadline passed before', 0],
])('a create in doubt that is throttled from then on is sent in its turn, %s', async (_, deadline) => {
  upstream.createFaults.push(inDoubt('500'), throttled('429', 2_000));
  const handle = await bench.start({ ...input, deadline });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-3' });
});

test('a create in doubt that is not delivered from then on ends at the deadline as UnknownOutcome', async () => {
  upstream.createFaults.push(...outage());
  const handle = await bench.start({ ...input, deadline: '1 hour' });
  await skipTime(handle);
  const error = (await handle.result().catch((thrown: unknown) => thrown)) as WorkflowFailedError;
  const { type, details } = error.cause as ApplicationFailure;
  expect(type).toBe('UnknownOutcome');
  expect(details).toEqual([
    { kind: 'create', jobId: null, followUpId: null, reason: expect.stringContaining('an earlier send') },
  ]);
  const { startTime, closeTime } = await handle.describe();
  const lastedMs = closeTime!.getTime() - startTime.getTime();
  expect(lastedMs).toBeGreaterThanOrEqual(HOUR);
  expect(lastedMs).toBeLessThan(2 * HOUR);
});

test('a follow-up in doubt that is not delivered again stays unknown when the run ends at its deadline', async () => {
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(...outage());
  const handle = await bench.start({ ...input, deadline: '1 hour', polling: { min: '10 minutes' } });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await skipTime(handle);
  const result = await handle.result();
  expect(result).toMatchObject({
    outcome: 'timedOut',
    followUps: [{ id: 'a', state: 'unknown' }],
    usedFollowUpIds: ['a'],
  });
  expect(Date.parse(result.finishedAt) - Date.parse(result.startedAt)).toBeLessThan(3 * HOUR);
});

/** A job was made, and the answer does not say which. */
const carriedOut: WriteOutcome = {
  ...{ kind: 'inDoubt', asksBeforeRetry: true, reason: 'upstream answered 302' },
  text: '; Location: https://app.example/tasks/7',
};

test('a create that was carried out is not sent again: a person is asked, and is shown its Location', async () => {
  upstream.createFaults.push(inDoubt('500'), carriedOut);
  const handle = await bench.start({ ...input, decideWithin: '1 hour' });
  const state = () => handle.query(jobStateQuery);
  await expect.poll(async () => (await state()).phase).toBe('needsAttention');
  expect((await state()).unknown?.reason).toBe('upstream answered 302; Location: https://app.example/tasks/7');
  expect(upstream.created).toHaveLength(2);
  await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'adopt', jobId: 'job-7' }] });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-7' });
  expect(upstream.created).toHaveLength(2);
});

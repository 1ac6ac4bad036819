import { type WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import { defineSearchAttributeKey, type ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import {
  followUpSignal,
  jobStateQuery,
  resolveUnknownUpdate,
  SEARCH_ATTRIBUTE,
  type ResolveUnknownInput,
} from '../../src/contract.js';
import { inDoubt, notDelivered, rejected, throttled } from '../support/outcomes.js';
import { useSkippedTime } from '../support/job-tests.js';
import { unlessForgotten } from '../support/time-skipping.js';

const tests = useSkippedTime();
const unknown = () => inDoubt('upstream answered 500');
const input = { projectId: 'p1', prompt: 'Fix it' };

type Handle = Awaited<ReturnType<typeof tests.bench.start>>;
const stateOf = (handle: Handle) => handle.query(jobStateQuery);
async function untilAttention(handle: Handle): Promise<void> {
  await expect.poll(async () => (await stateOf(handle)).phase).toBe('needsAttention');
}
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
const causeOf = async (handle: Handle) =>
  ((await handle.result().catch((e: unknown) => e)) as WorkflowFailedError).cause as ApplicationFailure;

async function startUnknownCreate(options: object = {}): Promise<Handle> {
  tests.upstream.createFaults.push(unknown());
  const handle = await tests.bench.start({ ...input, ...options });
  await untilAttention(handle);
  return handle;
}

test('a job that is older than the first send is adopted with force alone, however long the run waited', async () => {
  const { environment, upstream } = tests;
  const startedAt = await environment.currentTimeMs();
  upstream.createFaults.push(throttled('429', 3_600_000), unknown());
  const handle = await tests.bench.start(input);
  await environment.sleep('62 minutes');
  await untilAttention(handle);
  const createdAt = new Date(startedAt + 1_800_000).toISOString();
  upstream.show = () => ({ status: 'completed', createdAt });
  const adoption = { action: 'adopt', jobId: 'job-9' } as const;
  await expect(resolve(handle, adoption)).rejects.toMatchObject({
    cause: { message: expect.stringContaining('before this run first sent its create') },
  });
  await resolve(handle, { ...adoption, force: true });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-9' });
});

test('an unknown create shows what is unknown, why and since when, wherever an operator looks', async () => {
  const handle = await startUnknownCreate();
  const state = await stateOf(handle);
  expect(state.unknown).toEqual({
    kind: 'create',
    reason: expect.stringContaining('500'),
    since: expect.stringMatching(/Z$/),
    lookAfter: expect.stringMatching(/Z$/),
  });
  const { since, lookAfter } = state.unknown!;
  // Half a minute from when the workflow heard of it, which is a moment after the worker judged.
  expect(Date.parse(lookAfter) - Date.parse(since)).toBe(30_000);
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(currentDetails).toContain(`Look from ${lookAfter} on`);
  expect(currentDetails).toContain('- job: not known\n');
  // A retry can make a second job.
  const commands = [...currentDetails.matchAll(/npx agent-jobs resolve \S+ (.+) \\\n +--since (\S+)/g)];
  expect(commands.map(([, action, at]) => [action, at])).toEqual([
    ['adopt --job-id ID_OF_THE_JOB', since],
    ['retry', since],
  ]);
  const { typedSearchAttributes, memo } = await handle.describe();
  expect(typedSearchAttributes.get(defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, 'KEYWORD'))).toBe('needsAttention');
  expect(memo?.inputHash).toMatch(/^[0-9a-f]{64}$/);
  const adopted = await resolve(handle, { action: 'adopt', jobId: 'found', since: state.unknown!.since });
  expect(adopted).toMatchObject({ phase: 'watching', jobId: 'found', unknown: null });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'found' });
  expect(tests.upstream.created).toHaveLength(1);
});

test('abandoning a create ends the run as abandoned', async () => {
  const handle = await startUnknownCreate();
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  const state = await resolve(handle, { action: 'abandon' }).catch(unlessForgotten);
  expect(state ?? { phase: 'done' }).toMatchObject({ phase: 'done' });
  expect(await handle.result()).toMatchObject({
    outcome: 'abandoned',
    jobId: null,
    job: null,
    followUps: [{ id: 'a', state: 'abandoned' }],
    usedFollowUpIds: [],
  });
  expect(tests.upstream.messages).toEqual([]);
});

test('a create can’t be said to be delivered', async () => {
  const handle = await startUnknownCreate();
  await expect(resolve(handle, { action: 'delivered' })).rejects.toThrow(WorkflowUpdateFailedError);
  await expect(resolve(handle, { action: 'abandon', followUpId: 'a' })).rejects.toThrow(WorkflowUpdateFailedError);
  await resolve(handle, { action: 'abandon' }).catch(unlessForgotten);
  await handle.result();
});

test('policy retry sends at most 5 times, within a minute', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(...Array.from({ length: 9 }, unknown));
  const handle = await bench.start({ ...input, onUnknownOutcome: 'retry' });
  const cause = await causeOf(handle);
  expect(cause.type).toBe('UnknownOutcome');
  expect(cause.details).toEqual([{ kind: 'create', jobId: null, followUpId: null, reason: expect.any(String) }]);
  expect(upstream.created).toHaveLength(5);
  expect(upstream.createTimes.at(-1)! - upstream.createTimes[0]!).toBeLessThan(60_000);
});

test('policy retry does not call a create refused that an earlier send may have made', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(unknown(), rejected(409, 'exists'));
  const handle = await bench.start({ ...input, onUnknownOutcome: 'retry' });
  expect((await causeOf(handle)).type).toBe('UnknownOutcome');
});

test('a create refused after a person said retry is not called refused: the first send may have made one', async () => {
  const handle = await startUnknownCreate();
  tests.upstream.createFaults.push(rejected(409, 'exists'));
  await resolve(handle, { action: 'retry' });
  const cause = await causeOf(handle);
  expect(cause.type).toBe('UnknownOutcome');
  expect(cause.details).toMatchObject([{ kind: 'create', reason: expect.stringContaining('409') }]);
});

test('a create not delivered until the deadline after a person said retry ends as UnknownOutcome', async () => {
  const handle = await startUnknownCreate({ deadline: '1 hour' });
  tests.upstream.createFaults.push(...Array.from({ length: 40 }, () => notDelivered('connection refused')));
  await resolve(handle, { action: 'retry' });
  expect((await causeOf(handle)).type).toBe('UnknownOutcome');
});

test('decideWithin ends the wait: a create fails as UnknownOutcome', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(unknown());
  const handle = await bench.start({ ...input, decideWithin: '2 days', deadline: '1 hour' });
  expect(await causeOf(handle)).toMatchObject({ type: 'UnknownOutcome' });
  const { startTime, closeTime } = await handle.describe();
  expect(closeTime!.getTime() - startTime.getTime()).toBeGreaterThanOrEqual(48 * 3_600_000);
});

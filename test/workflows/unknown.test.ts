import { type WorkflowFailedError } from '@temporalio/client';
import { defineSearchAttributeKey, type ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { jobStateQuery, resolveUnknownUpdate, SEARCH_ATTRIBUTE, type ResolveUnknownInput } from '../../src/contract.js';
import { inDoubt, notDelivered, rejected } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { skipTimeBy } from '../support/skip-time.js';

const { upstream, bench } = useDevServer();
const unknown = () => inDoubt('upstream answered 500');
const input = { projectId: 'p1', prompt: 'Fix it', settle: 0 };

type Handle = Awaited<ReturnType<typeof bench.start>>;
const stateOf = (handle: Handle) => handle.query(jobStateQuery);
async function untilAttention(handle: Handle): Promise<void> {
  await expect.poll(async () => (await stateOf(handle)).phase).toBe('needsAttention');
}
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
const causeOf = async (handle: Handle) =>
  ((await handle.result().catch((e: unknown) => e)) as WorkflowFailedError).cause as ApplicationFailure;

async function startUnknownCreate(options: object = {}): Promise<Handle> {
  upstream.createFaults.push(unknown());
  const handle = await bench.start({ ...input, ...options });
  await untilAttention(handle);
  return handle;
}

test('a job that is older than the first send is adopted with force alone, however long the run waited', async () => {
  // At five minutes at most from one to the next.
  upstream.createFaults.push(...Array.from({ length: 12 }, () => notDelivered('connection refused')), unknown());
  const handle = await bench.start(input);
  await skipTimeBy(handle, '1 hour');
  await untilAttention(handle);
  const createdAt = new Date(Date.now() + 60_000).toISOString();
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
  // Half a minute from when the workflow knew, which is a moment after the worker judged.
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
  expect(upstream.created).toHaveLength(1);
});

test('a create refused after a person said retry is not called refused: the first send may have made one', async () => {
  const handle = await startUnknownCreate();
  upstream.createFaults.push(rejected(409, 'exists'));
  await resolve(handle, { action: 'retry' });
  const cause = await causeOf(handle);
  expect(cause.type).toBe('UnknownOutcome');
  expect(cause.details).toMatchObject([{ kind: 'create', reason: expect.stringContaining('409') }]);
});

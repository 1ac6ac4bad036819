import { randomUUID } from 'node:crypto';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { ApplicationFailure } from '@temporalio/common';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { jobStateQuery, resolveUnknownUpdate, type ResolveUnknownInput } from '../../src/contract.js';
import { AgentJobs } from '../../src/starter.js';
import { gathered } from '../client/job-server.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { inDoubt } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

const { upstream, bench } = useDevServer();
/** Each test's own: a job that another workflow has had is not adopted. */
let projectId: string;
beforeEach(() => void (projectId = `p ${randomUUID()}`));
let opened: (() => void) | undefined;
afterEach(() => opened?.());

type Handle = Awaited<ReturnType<typeof bench.start>>;
const noSuchJob = () => new RejectedError('upstream answered 404', 404, 'no such job');
const ill = () => new ReadFailedError('upstream answered 503', 503);
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
const adopt = (handle: Handle, jobId: string, force?: boolean) =>
  resolve(handle, { action: 'adopt', jobId, ...(force === undefined ? {} : { force }) });

async function untilAttention(handle: Handle): Promise<void> {
  await expect.poll(async () => (await handle.query(jobStateQuery)).phase).toBe('needsAttention');
}

async function startUnknownCreate(options: object = {}): Promise<Handle> {
  upstream.show = () => ({ status: 'active' });
  upstream.createFaults.push(inDoubt('upstream answered 500'));
  const handle = await bench.start({ projectId, prompt: 'Fix it', settle: 0, ...options });
  await untilAttention(handle);
  return handle;
}

/** The failure of a decision that is not taken. */
async function refusal(decision: Promise<unknown>): Promise<ApplicationFailure> {
  const error = await decision.then(
    () => expect.fail('was accepted'),
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(WorkflowUpdateFailedError);
  return (error as WorkflowUpdateFailedError).cause as ApplicationFailure;
}

/** Makes reads hang; answers with what lets them go on. */
function holdReads(): () => void {
  const { opened: answered, open } = gate();
  upstream.readGate = answered;
  opened = open;
  return open;
}

test.each([undefined, true])(
  'a job that does not exist is not adopted (force: %s), and the create stays unknown',
  async (force) => {
    const handle = await startUnknownCreate();
    const before = (await handle.query(jobStateQuery)).unknown;
    upstream.readFaults.push(noSuchJob());
    const failure = await refusal(adopt(handle, 'job_nope', force));
    expect(failure).toMatchObject({ type: 'InvalidInput', details: [{ field: 'jobId' }] });
    expect(failure.message).toContain('404');
    expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'needsAttention', jobId: null, unknown: before });
    expect(await adopt(handle, 'job-1')).toMatchObject({ phase: 'watching', jobId: 'job-1', unknown: null });
    upstream.show = () => ({ status: 'completed' });
    expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-1' });
  },
);

test.each([false, true])('a job that another workflow has is adopted with force alone (ended: %s)', async (isEnded) => {
  if (!isEnded) upstream.show = () => ({ status: 'active' });
  const other = await bench.start({ projectId, jobId: 'job-7' });
  if (isEnded) await other.result();
  const handle = await startUnknownCreate();
  const jobs = new AgentJobs({ client: bench.client });
  await expect.poll(() => gathered(jobs.list({ projectId, jobId: 'job-7' }))).toHaveLength(1);
  const failure = await refusal(adopt(handle, 'job-7'));
  expect(failure).toMatchObject({ type: 'InvalidInput', message: expect.stringContaining(other.workflowId) });
  expect(await adopt(handle, 'job-7', true)).toMatchObject({ phase: 'watching', jobId: 'job-7' });
  upstream.show = () => ({ status: 'completed' });
  await handle.result();
});

test('where the upstream is ill adopt is refused with its reason, and force adopts all the same', async () => {
  const handle = await startUnknownCreate();
  upstream.readFaults.push(ill(), ill());
  const failure = await refusal(adopt(handle, 'job-1'));
  expect(failure).toMatchObject({ type: 'InvalidInput', message: expect.stringContaining('503') });
  await untilAttention(handle);
  expect(await adopt(handle, 'job-1', true)).toMatchObject({ phase: 'watching', jobId: 'job-1' });
});

test('a decision that comes while the job is read settles the create, and the adoption is refused', async () => {
  const handle = await startUnknownCreate();
  const open = holdReads();
  const adoption = refusal(adopt(handle, 'job-1'));
  await expect.poll(() => upstream.reads).toBe(1);
  await resolve(handle, { action: 'retry' });
  expect(await adoption).toMatchObject({
    type: 'InvalidInput',
    message: expect.stringContaining('resolved meanwhile'),
  });
  open();
  await expect.poll(async () => (await handle.query(jobStateQuery)).jobId).toBe('job-2');
});

test('the create that is unknown again is another one than that which was to be adopted', async () => {
  const handle = await startUnknownCreate();
  const open = holdReads();
  upstream.createFaults.push(inDoubt('upstream answered 502'));
  const adoption = refusal(adopt(handle, 'job-1'));
  await expect.poll(() => upstream.reads).toBe(1);
  await resolve(handle, { action: 'retry' });
  await expect.poll(async () => (await handle.query(jobStateQuery)).unknown?.reason).toContain('502');
  open();
  expect((await adoption).type).toBe('InvalidInput');
  expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'needsAttention', jobId: null });
});

test('a cancellation does not wait for the read of a job to adopt', async () => {
  const handle = await startUnknownCreate();
  holdReads();
  const adoption = refusal(adopt(handle, 'job-1'));
  await expect.poll(() => upstream.reads).toBe(1);
  await handle.cancel();
  expect((await adoption).type).toBe('InvalidInput');
  await expect(handle.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
});

test('however many want to adopt, another decision gets through', async () => {
  const handle = await startUnknownCreate();
  holdReads();
  const refusals: string[] = [];
  const note = ({ message }: ApplicationFailure) => void refusals.push(message);
  const adoptions = Array.from({ length: 6 }, (_, i) => refusal(adopt(handle, `job-${i}`)).then(note));
  await expect.poll(() => refusals.length).toBe(3);
  await expect.poll(() => upstream.reads).toBe(3);
  await resolve(handle, { action: 'abandon' });
  await Promise.all(adoptions);
  expect(refusals.map((text) => text.includes('resolved meanwhile'))).toEqual([false, false, false, true, true, true]);
  expect(await handle.result()).toMatchObject({ outcome: 'abandoned' });
});

test('our client waits for a read that takes longer than its other calls may', async () => {
  const handle = await startUnknownCreate();
  const open = holdReads();
  const job = new AgentJobs({ client: bench.client }).handle(handle.workflowId);
  const adoption = job.resolve({ action: 'adopt', jobId: 'job-1' });
  await expect.poll(() => upstream.reads).toBe(1);
  setTimeout(open, 14_000);
  expect(await adoption).toMatchObject({ phase: 'watching', jobId: 'job-1', unknown: null });
});

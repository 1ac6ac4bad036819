import { randomUUID } from 'node:crypto';
import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LockAnswer } from '../../src/contract.js';
import { inputHash, recurringJobLockId, type JobScheduleHandle } from '../../src/starter.js';
import { startJobServer, type JobServer } from './job-server.js';
import { expectFates, runHours, runsOf, schedulePaused } from './recurring.js';

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
});
afterAll(async () => server.close());

/** The jobs of this recurring job run until they are told to end. */
const neverEnd = ({ name }: { name: string }) =>
  server.sandbox.addScript({ promptIncludes: name, script: { activeMs: 3_600_000 } });

const jobOf = ({ projectId, name }: JobScheduleHandle, hour: string) =>
  server.jobs.handle({ projectId, key: `${name}-2026-03-10T${hour}:00:00Z` });

const promptsOf = async ({ projectId, name }: JobScheduleHandle) =>
  (await server.sandbox.creates({ projectId, promptIncludes: name })).map(({ prompt }) => prompt);

test('a time starts the job of its own prompt and key, which is a job as any other', async () => {
  const handle = await schedulePaused(server, { timeZone: 'Asia/Kathmandu', batch: 'reviews' });
  await runHours(server, handle, 23);
  const [run] = await expectFates(handle, ['ended']);
  const { projectId, name } = handle;
  const prompt = `Review of 2026-03-11 04:45, ${name}`;
  expect(run).toMatchObject({ outcome: 'completed', key: `${name}-2026-03-10T23:00:00Z`, reason: null });
  const job = jobOf(handle, '23');
  expect(job.workflowId).toBe(run?.workflowId);
  expect(await job.result()).toMatchObject({ outcome: 'completed', projectId });
  const described = await server.client.workflow.getHandle(job.workflowId).describe();
  expect(described.memo).toMatchObject({ inputHash: inputHash({ projectId, prompt }) });
  expect(await described.staticSummary()).toContain('Review of 2026-03-11');
  expect((await server.jobs.start({ projectId, key: run?.key ?? '', prompt })).workflowId).toBe(job.workflowId);
  expect((await job.sendFollowUp('And the tests')).state).toBe('sent');
  expect(await promptsOf(handle)).toEqual([prompt]);
});

test('the same time again makes no second job, while the first runs and afterwards', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1);
  await expectFates(handle, ['running']);
  await expect.poll(async () => (await jobOf(handle, '01').state()).phase).toBe('watching');
  await runHours(server, handle, 1);
  // The server takes times in order: once this one has its run, the one before would have had its own.
  await runHours(server, handle, 2);
  await expectFates(handle, ['running', 'skipped']);
  await jobOf(handle, '01').cancel();
  await expectFates(handle, ['ended', 'skipped']);
  await runHours(server, handle, 1);
  const runs = await expectFates(handle, ['ended', 'exists', 'skipped']);
  expect(runs[0]?.outcome).toBe('Canceled');
  expect(await promptsOf(handle)).toHaveLength(1);
});

test('with overlap skip, of three times at once one runs, and the others are skipped with their reason', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1, 3);
  await expect
    .poll(async () => (await runsOf(handle)).map(({ fate }) => fate).sort())
    .toEqual(['running', 'skipped', 'skipped']);
  const runs = await runsOf(handle);
  const skipped = runs.filter(({ fate }) => fate === 'skipped');
  expect(skipped.map(({ reason }) => reason)).toEqual(['earlierRun', 'earlierRun']);
  const { workflow } = server.client;
  expect(await workflow.getHandle(skipped[0]?.runWorkflowId ?? '').result()).toMatchObject({ fate: 'skipped' });
  await expect.poll(async () => (await promptsOf(handle)).length).toBe(1);
  await server.client.workflow.getHandle(runs.find(({ fate }) => fate === 'running')?.workflowId ?? '').cancel();
  await expect.poll(async () => (await runsOf(handle)).some(({ fate }) => fate === 'running')).toBe(false);
  await expect.poll(() => isLocked(handle)).toBe(false);
  await runHours(server, handle, 4);
  await expect.poll(async () => (await runsOf(handle)).at(-1)?.fate).toBe('running');
  await jobOf(handle, '04').cancel();
});

async function isLocked({ projectId, name }: JobScheduleHandle): Promise<boolean> {
  const lock = server.client.workflow.getHandle(recurringJobLockId(projectId, name));
  return (await lock.describe()).status.name === 'RUNNING';
}

test('with overlap queue, the times wait for each other, the earliest first, whatever becomes of a job', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  await neverEnd(handle);
  await runHours(server, handle, 5);
  await expectFates(handle, ['running']);
  await runHours(server, handle, 8);
  await expectFates(handle, ['running', 'queued']);
  await expect.poll(async () => (await jobOf(handle, '05').state()).phase).toBe('watching');
  await runHours(server, handle, 6, 7);
  const runs = await expectFates(handle, ['running', 'queued', 'queued', 'queued']);
  // One that is cancelled while it waits is passed over.
  await server.client.workflow.getHandle(runs[1]?.runWorkflowId ?? '').cancel();
  await expectFates(handle, ['running', 'canceled', 'queued', 'queued']);
  await jobOf(handle, '05').cancel();
  await expectFates(handle, ['ended', 'canceled', 'running', 'queued']);
  await expect.poll(async () => (await jobOf(handle, '07').state()).phase).toBe('watching');
  await server.client.workflow.getHandle(jobOf(handle, '07').workflowId).terminate();
  const ended = await expectFates(handle, ['ended', 'canceled', 'ended', 'running']);
  expect(ended.map(({ outcome }) => outcome)).toEqual(['Canceled', null, 'Terminated', null]);
  await expect.poll(async () => (await jobOf(handle, '08').state()).phase).toBe('watching');
  await jobOf(handle, '08').cancel();
  expect((await promptsOf(handle)).map((prompt) => prompt.slice(0, 26))).toEqual([
    'Review of 2026-03-10 05:00',
    'Review of 2026-03-10 07:00',
    'Review of 2026-03-10 08:00',
  ]);
});

test('a time that waited for as long as it may is skipped with that reason', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue', queueFor: '2 seconds' });
  await neverEnd(handle);
  await runHours(server, handle, 1);
  await expectFates(handle, ['running']);
  await runHours(server, handle, 2);
  const runs = await expectFates(handle, ['running', 'skipped']);
  expect(runs[1]?.reason).toBe('queueWait');
  await jobOf(handle, '01').cancel();
});

test('removing it leaves the job that runs, and skips the times that wait', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  await neverEnd(handle);
  await runHours(server, handle, 1);
  await expectFates(handle, ['running']);
  await runHours(server, handle, 2);
  await expectFates(handle, ['running', 'queued']);
  await handle.remove();
  const runs = await expectFates(handle, ['running', 'skipped']);
  expect(runs[1]?.reason).toBe('scheduleRemoved');
  await expect(handle.describe()).rejects.toThrow('there is no Schedule');
  await expect(handle.remove()).rejects.toThrow('"agent-jobs schedule" makes one');
  expect((await jobOf(handle, '01').state()).phase).toBe('watching');
  await jobOf(handle, '01').cancel();
});

test('a run that began before the removal and asks after it is skipped, one that began after it waits', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  await neverEnd(handle);
  await runHours(server, handle, 1);
  const [run] = await expectFates(handle, ['running']);
  await handle.remove();
  const lock = server.client.workflow.getHandle(recurringJobLockId(handle.projectId, handle.name));
  const waiter = { workflowId: run?.runWorkflowId ?? '', scheduledAt: '2026-03-10T02:00:00.000Z' };
  const [before, after] = [run?.startedAt ?? '', new Date(Date.now() + 3_600_000).toISOString()];
  await lock.signal('awaitLock', { waiting: [{ ...waiter, startedAt: before }] });
  await expect.poll(() => answersTo(waiter)).toEqual(['removed', 'held']);
  await lock.signal('awaitLock', { waiting: [{ ...waiter, startedAt: after }] });
  const details = async () =>
    (await lock.query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails;
  await expect.poll(details).toContain('**Runs that wait** 1');
  expect(await answersTo(waiter)).toEqual(['removed', 'held']);
  await jobOf(handle, '01').cancel();
});

/** What the lock has told this run. */
async function answersTo({ workflowId }: { workflowId: string }): Promise<unknown[]> {
  const { events } = await server.client.workflow.getHandle(workflowId).fetchHistory();
  const signals = (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal ?? []);
  const payloads = signals.flatMap(({ input }) => input?.payloads ?? []);
  return payloads.map((payload) => defaultPayloadConverter.fromPayload<LockAnswer>(payload as never).kind);
}

test('a run that is cancelled cancels its job; one that is terminated leaves it, and the next time runs', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1);
  const [first] = await expectFates(handle, ['running']);
  await server.client.workflow.getHandle(first?.runWorkflowId ?? '').cancel();
  await expectFates(handle, ['canceled']);
  await expect(jobOf(handle, '01').result()).rejects.toThrow('canceled');
  await expect.poll(() => isLocked(handle)).toBe(false);
  await runHours(server, handle, 2);
  const [, second] = await expectFates(handle, ['canceled', 'running']);
  await server.client.workflow.getHandle(second?.runWorkflowId ?? '').terminate();
  await expect.poll(() => isLocked(handle)).toBe(false);
  await runHours(server, handle, 3);
  await expectFates(handle, ['canceled', 'terminated', 'running']);
  expect((await jobOf(handle, '02').state()).phase).toBe('watching');
  await Promise.all([jobOf(handle, '02').cancel(), jobOf(handle, '03').cancel()]);
});

test('a run that an operator resets leaves no lock behind: the next time runs', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1);
  const [first] = await expectFates(handle, ['running']);
  const workflowId = first?.runWorkflowId ?? '';
  const { runId } = await server.client.workflow.getHandle(workflowId).describe();
  await server.client.workflowService.resetWorkflowExecution({
    namespace: server.namespace,
    workflowExecution: { workflowId, runId },
    workflowTaskFinishEventId: 8 as never,
    requestId: randomUUID(),
    reason: 'a test',
  });
  await expectFates(handle, ['terminated', 'exists']);
  await runHours(server, handle, 2);
  const runs = await expectFates(handle, ['terminated', 'exists', 'running']);
  expect(runs[2]?.key).toBe(`${handle.name}-2026-03-10T02:00:00Z`);
  await Promise.all([jobOf(handle, '01').cancel(), jobOf(handle, '02').cancel()]);
});

test('malformed messages harm neither a run nor its lock', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  await neverEnd(handle);
  await runHours(server, handle, 1);
  const [run] = await expectFates(handle, ['running']);
  const lock = server.client.workflow.getHandle(recurringJobLockId(handle.projectId, handle.name));
  const hostile = ['', 'nobody', 'x'.repeat(2_000)].map((workflowId) => ({
    workflowId,
    scheduledAt: '2026',
    startedAt: '2026',
  }));
  const message = { waiting: [null, {}, { workflowId: 'a' }, ...hostile] };
  // Handed on together, they would be more than a signal or an input may hold.
  const large = ['1', '2'].map((id) => ({ workflowId: id, scheduledAt: 'x'.repeat(1_500_000), startedAt: '2026' }));
  for (const args of [[], [null], [{ waiting: 7 }], [message], ...large.map((waiter) => [{ waiting: [waiter] }])]) {
    await lock.signal('awaitLock', ...args);
    await server.client.workflow.getHandle(run?.runWorkflowId ?? '').signal('lockAnswer', ...args);
  }
  await lock.signal('unheardOf', 1);
  await jobOf(handle, '01').cancel();
  await expectFates(handle, ['ended']);
  await expect.poll(() => isLocked(handle)).toBe(false);
});

test('a Schedule that is not paused runs by itself, each time once, until it is paused', async () => {
  const handle = await schedulePaused(server);
  await server.client.schedule.getHandle(handle.scheduleId).update((current) => ({
    ...current,
    spec: { intervals: [{ every: '4 seconds' }] },
    state: { ...current.state, paused: false },
  }));
  await expect
    .poll(async () => (await runsOf(handle)).filter(({ fate }) => fate === 'ended').length)
    .toBeGreaterThan(1);
  await handle.pause();
  await expect.poll(async () => (await runsOf(handle)).every(({ closedAt }) => closedAt !== null)).toBe(true);
  const keys = (await runsOf(handle)).map(({ key }) => key);
  expect(new Set(keys).size).toBe(keys.length);
  const ended = async () => (await runsOf(handle)).filter(({ fate }) => fate === 'ended').length;
  // One that began last may be listed a moment later.
  await expect.poll(async () => (await promptsOf(handle)).length - (await ended())).toBe(0);
  expect(await handle.describe()).toMatchObject({ paused: true, nextRunAt: null });
});

test('the longest prompt goes through Schedule and run as any other', async () => {
  const handle = await schedulePaused(server, { prompt: '\n'.repeat(512 * 1024 - 10) + '{date}' });
  await runHours(server, handle, 1);
  const [run] = await expectFates(handle, ['ended']);
  expect(run?.outcome).toBe('completed');
});

test('a manual trigger runs a paused one now, with the present time in key and prompt', async () => {
  const handle = await schedulePaused(server);
  const before = new Date(Math.floor(Date.now() / 1_000) * 1_000).toISOString();
  await handle.trigger();
  const [run] = await expectFates(handle, ['ended']);
  expect((run?.scheduledAt ?? '') >= before).toBe(true);
  expect(await promptsOf(handle)).toEqual([
    `Review of ${run?.scheduledAt.slice(0, 10)} ${run?.scheduledAt.slice(11, 16)}, ${handle.name}`,
  ]);
});

import { randomUUID } from 'node:crypto';
import { Client } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentJobs, type JobScheduleHandle } from '../../src/starter.js';
import { inputHash } from '../../src/agent-job/input.js';
import { startJobServer, type JobServer } from './job-server.js';
import { countWaiting, expectFates, runHours, runsOf, schedulePaused } from './recurring.js';

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
  expect(run).toMatchObject({ outcome: 'completed', key: `${name}-2026-03-10T23:00:00Z` });
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

const skippedOf = async (handle: JobScheduleHandle) => (await handle.describe()).skippedRuns;

test('the same time again makes no second job, while the first runs and afterwards', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1);
  await expectFates(handle, ['running']);
  await expect.poll(async () => (await jobOf(handle, '01').state()).phase).toBe('watching');
  await runHours(server, handle, 1, 1, 'ALLOW_ALL');
  // The server takes times in order: once this one is skipped, the one before would have had its run.
  await runHours(server, handle, 2);
  await expect.poll(() => skippedOf(handle)).toBe(1);
  await expectFates(handle, ['running']);
  await jobOf(handle, '01').cancel();
  await expectFates(handle, ['ended']);
  await runHours(server, handle, 1);
  const runs = await expectFates(handle, ['ended', 'exists']);
  expect(runs[0]?.outcome).toBe('Canceled');
  expect(await promptsOf(handle)).toHaveLength(1);
});

test('with overlap skip, of three times at once one runs, the others are counted, and a later one runs', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1, 3);
  await expect.poll(() => skippedOf(handle)).toBe(2);
  await expectFates(handle, ['running']);
  await handle.trigger();
  await expect.poll(() => skippedOf(handle)).toBe(3);
  await expect.poll(async () => (await jobOf(handle, '01').state()).phase).toBe('watching');
  await jobOf(handle, '01').cancel();
  await expectFates(handle, ['ended']);
  await runHours(server, handle, 4);
  await expectFates(handle, ['ended', 'running']);
  await expect.poll(async () => (await promptsOf(handle)).length).toBe(2);
  await jobOf(handle, '04').cancel();
});

test('with overlap queue, one time waits for the end of the job, and those after it are counted', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  await neverEnd(handle);
  await runHours(server, handle, 5);
  await expectFates(handle, ['running']);
  await expect.poll(async () => (await jobOf(handle, '05').state()).phase).toBe('watching');
  await runHours(server, handle, 6, 8);
  await expect.poll(() => skippedOf(handle)).toBe(2);
  expect(await countWaiting(server, handle)).toBe(1);
  await expectFates(handle, ['running']);
  expect(await promptsOf(handle)).toHaveLength(1);
  await server.client.workflow.getHandle(jobOf(handle, '05').workflowId).terminate();
  const runs = await expectFates(handle, ['ended', 'running']);
  expect(runs.map(({ outcome }) => outcome)).toEqual(['Terminated', null]);
  await expect.poll(async () => (await jobOf(handle, '06').state()).phase).toBe('watching');
  await jobOf(handle, '06').cancel();
  await expectFates(handle, ['ended', 'ended']);
  expect(await countWaiting(server, handle)).toBe(0);
});

test('removing it leaves the job that runs, and no time starts after it, not even one that waits', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  const { projectId, name } = handle;
  await neverEnd(handle);
  await runHours(server, handle, 1);
  await expectFates(handle, ['running']);
  await runHours(server, handle, 2);
  await expect.poll(() => countWaiting(server, handle)).toBe(1);
  await handle.remove();
  await expect(handle.describe()).rejects.toThrow('there is no Schedule');
  await expect(handle.remove()).rejects.toThrow('"agent-jobs schedule" makes one');
  expect((await jobOf(handle, '01').state()).phase).toBe('watching');
  await jobOf(handle, '01').cancel();
  await expectFates(handle, ['ended']);
  // One of the same name that is made anew starts with its own times.
  const anew = await server.jobs.schedule({ projectId, name, prompt: name, every: '1 hour', paused: true });
  await runHours(server, anew, 3);
  const runs = await expectFates(handle, ['ended', 'running']);
  expect(runs[1]?.scheduledAt).toBe('2026-03-10T03:00:00.000Z');
  await anew.remove();
  await jobOf(handle, '03').cancel();
});

test('a removal that Temporal refuses takes nothing away', async () => {
  const handle = await schedulePaused(server, { overlap: 'queue' });
  await neverEnd(handle);
  await runHours(server, handle, 1);
  await expectFates(handle, ['running']);
  await runHours(server, handle, 2);
  await expect.poll(() => countWaiting(server, handle)).toBe(1);
  const { connection, workflowService } = server.client;
  const refusal = Object.assign(new Error('no'), { code: 7, details: 'not allowed', metadata: new Map() });
  const refusing = { deleteSchedule: { value: () => Promise.reject(refusal) } };
  const value = Object.create(workflowService, refusing) as typeof workflowService;
  const replaced = Object.create(connection, { workflowService: { value } }) as typeof connection;
  const jobs = new AgentJobs({ client: new Client({ connection: replaced, namespace: server.namespace }) });
  await expect(jobs.recurring(handle).remove()).rejects.toThrow('not allowed');
  expect((await handle.describe()).skippedRuns).toBe(0);
  await jobOf(handle, '01').cancel();
  await expectFates(handle, ['ended', 'running']);
  await handle.remove();
  await jobOf(handle, '02').cancel();
});

test('a run that is cancelled cancels its job; one that is terminated leaves it, and the next time runs', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1);
  const [first] = await expectFates(handle, ['running']);
  await server.client.workflow.getHandle(first?.runWorkflowId ?? '').cancel();
  await expectFates(handle, ['canceled']);
  await expect(jobOf(handle, '01').result()).rejects.toThrow('canceled');
  await runHours(server, handle, 2);
  const [, second] = await expectFates(handle, ['canceled', 'running']);
  await server.client.workflow.getHandle(second?.runWorkflowId ?? '').terminate();
  await expectFates(handle, ['canceled', 'terminated']);
  await runHours(server, handle, 3);
  await expectFates(handle, ['canceled', 'terminated', 'running']);
  expect((await jobOf(handle, '02').state()).phase).toBe('watching');
  await Promise.all([jobOf(handle, '02').cancel(), jobOf(handle, '03').cancel()]);
});

test('a run that an operator resets starts no second job, and the next time runs', async () => {
  const handle = await schedulePaused(server);
  await neverEnd(handle);
  await runHours(server, handle, 1);
  const [first] = await expectFates(handle, ['running']);
  const workflowId = first?.runWorkflowId ?? '';
  const { runId } = await server.client.workflow.getHandle(workflowId).describe();
  await server.client.workflowService.resetWorkflowExecution({
    namespace: server.namespace,
    workflowExecution: { workflowId, runId },
    // Its first task: as if its job had not been started.
    workflowTaskFinishEventId: 4 as never,
    requestId: randomUUID(),
    reason: 'a test',
  });
  await expectFates(handle, ['terminated', 'exists']);
  await runHours(server, handle, 2);
  const runs = await expectFates(handle, ['terminated', 'exists', 'running']);
  expect(runs[2]?.key).toBe(`${handle.name}-2026-03-10T02:00:00Z`);
  await Promise.all([jobOf(handle, '01').cancel(), jobOf(handle, '02').cancel()]);
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
  await expect.poll(async () => (await runsOf(handle)).every(({ endedAt }) => endedAt !== null)).toBe(true);
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

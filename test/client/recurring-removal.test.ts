/** What becomes of runs that wait in no line while their Schedule is removed. */
import { Client, WorkflowNotFoundError, type WorkflowClientInterceptor } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { dismissRuns } from '../../src/client/recurring-job/removal.js';
import { AgentJobs, recurringJobLockId, type JobScheduleHandle } from '../../src/starter.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { countDismissals, heldAt, heldRunsBundle, listedHours, runOf, workerlessJob } from './held-runs.js';
import { expectFates, runHours, runsOf } from './recurring.js';

const OVERLAPS = ['skip', 'queue'] as const;

let server: TestServer;
beforeAll(async () => {
  server = await connectDevServer();
  await ensureSearchAttributes(server.client.connection, server.namespace);
  await heldRunsBundle();
});
afterEach(() => void vi.restoreAllMocks());
afterAll(async () => server.close());

const reasonsOf = async (handle: JobScheduleHandle) => (await runsOf(handle)).map(({ reason }) => reason);

/** The same recurring job, of a client that signals in this way. */
function signalling(handle: JobScheduleHandle, signal: NonNullable<WorkflowClientInterceptor['signal']>) {
  const { connection, options } = server.client;
  const client = new Client({ connection, namespace: options.namespace, interceptors: { workflow: [{ signal }] } });
  return new AgentJobs({ client }).recurring(handle);
}

test.for(OVERLAPS)(
  'a run that no worker has taken yet starts no job once its Schedule is removed: %s',
  async (overlap) => {
    const { handle, upstream, withWorker } = await workerlessJob(server, { overlap });
    await listedHours(server, handle, 1);
    await handle.remove();
    await withWorker(async () => {
      await expectFates(handle, ['skipped']);
      expect(await reasonsOf(handle)).toEqual(['scheduleRemoved']);
    });
    const { workflow } = server.client;
    await expect(workflow.getHandle(recurringJobLockId(handle.projectId, handle.name)).describe()).rejects.toThrow(
      WorkflowNotFoundError,
    );
    expect(upstream.created).toEqual([]);
  },
);

test.for(OVERLAPS)(
  'a run between two holders of the lock starts no job once its Schedule is removed: %s',
  async (overlap) => {
    const { handle, upstream, withHeldRuns } = await workerlessJob(server, { overlap });
    upstream.show = () => ({ status: 'active' });
    await withHeldRuns(async () => {
      const [first, second] = [runOf(server, handle, '01'), runOf(server, handle, '02')];
      await listedHours(server, handle, 1);
      await first.signal('goOn');
      await expectFates(handle, ['running']);
      await listedHours(server, handle, 2);
      await expect.poll(async () => (await runsOf(handle))[1]?.fate).toBe(overlap === 'queue' ? 'queued' : 'starting');
      if (overlap === 'queue') upstream.show = () => ({ status: 'completed' });
      await heldAt(second, 'betweenLocks');
      upstream.show = () => ({ status: 'completed' });
      await first.result();
      await handle.remove();
      await second.signal('goOn');
      await expectFates(handle, ['ended', 'skipped']);
      expect(await reasonsOf(handle)).toEqual([null, 'scheduleRemoved']);
    });
    expect(upstream.created).toHaveLength(1);
  },
);

test('a run that is told so while it holds the lock starts no job, and hands its line on', async () => {
  const { handle, upstream, withHeldRuns } = await workerlessJob(server, { overlap: 'queue' });
  await withHeldRuns(async () => {
    const [first, second] = [runOf(server, handle, '01'), runOf(server, handle, '02')];
    await listedHours(server, handle, 1);
    await heldAt(first, 'withLock');
    await listedHours(server, handle, 2);
    await expectFates(handle, ['starting', 'queued']);
    await first.signal('lockAnswer', { kind: 'removed', waiting: [] });
    await first.signal('goOn');
    await second.signal('goOn');
    await expectFates(handle, ['skipped', 'ended']);
    expect(await reasonsOf(handle)).toEqual(['scheduleRemoved', null]);
  });
  expect(upstream.created).toHaveLength(1);
});

test('a run that is told so together with its turn hands on those that wait behind it', async () => {
  const { handle, upstream, withWorker } = await workerlessJob(server, { overlap: 'queue' });
  const { workflow } = server.client;
  upstream.show = () => ({ status: 'active' });
  await withWorker(async () => {
    await listedHours(server, handle, 1);
    await expectFates(handle, ['running']);
    await listedHours(server, handle, 2, 3);
    await expectFates(handle, ['running', 'queued', 'queued']);
  });
  const [first, , third] = await runsOf(handle);
  const waiting = [{ ...third, workflowId: third?.runWorkflowId }];
  const ids = [recurringJobLockId(handle.projectId, handle.name), first?.runWorkflowId, first?.workflowId];
  for (const id of ids) await workflow.getHandle(id ?? '').terminate();
  await runOf(server, handle, '02').signal('lockAnswer', { kind: 'free', waiting });
  await runOf(server, handle, '02').signal('lockAnswer', { kind: 'removed', waiting: [] });
  upstream.show = () => ({ status: 'completed' });
  const runs = await withWorker(() => expectFates(handle, ['terminated', 'skipped', 'ended']));
  expect(runs[1]?.reason).toBe('scheduleRemoved');
});

test('a run that has its job is not told of the removal, and would not heed it', async () => {
  const { handle, upstream, withWorker } = await workerlessJob(server);
  upstream.show = () => ({ status: 'active' });
  await withWorker(async () => {
    await listedHours(server, handle, 1);
    await expectFates(handle, ['running']);
    const run = runOf(server, handle, '01');
    await handle.remove();
    expect(await countDismissals(run)).toBe(0);
    await run.signal('lockAnswer', { kind: 'removed', waiting: [] });
    upstream.show = () => ({ status: 'completed' });
    await expectFates(handle, ['ended']);
  });
});

test('a malformed answer before the first try keeps no run from its job', async () => {
  const { handle, withWorker } = await workerlessJob(server);
  await listedHours(server, handle, 1);
  const answered = runOf(server, handle, '01');
  const malformed = [[], [null], ['removed'], [['removed']], [{ kind: 'Removed' }], [{ kind: ['removed'] }], [{}]];
  for (const args of malformed) await answered.signal('lockAnswer', ...args);
  const [run] = await withWorker(() => expectFates(handle, ['ended']));
  expect(run?.outcome).toBe('completed');
});

test('another tool that removes the Schedule leaves a run alone that no worker has taken yet', async () => {
  const { handle, withWorker } = await workerlessJob(server);
  await listedHours(server, handle, 1);
  await server.client.schedule.getHandle(handle.scheduleId).delete();
  const [run] = await withWorker(() => expectFates(handle, ['ended']));
  expect(run?.outcome).toBe('completed');
});

test('of a Schedule that was made anew at once the runs stay', async () => {
  const { handle, withWorker } = await workerlessJob(server);
  await listedHours(server, handle, 1);
  const schedule = server.client.schedule.getHandle(handle.scheduleId);
  const { action, spec, policies } = await schedule.describe();
  await schedule.delete();
  const state = { paused: true };
  await server.client.schedule.create({ scheduleId: handle.scheduleId, action, spec, policies, state });
  await listedHours(server, handle, 2);
  // As the removal of the Schedule before does it when it looks once more.
  await dismissRuns(server.client, handle, schedule, true);
  await withWorker(async () => {
    await expectFates(handle, ['skipped', 'ended']);
    expect(await reasonsOf(handle)).toEqual(['scheduleRemoved', null]);
  });
});

test('a run that can not be told hides no other, and the removal again tells it', async () => {
  const { handle, upstream, withWorker } = await workerlessJob(server);
  await listedHours(server, handle, 1, 3);
  const unreachable = runOf(server, handle, '02');
  const failing = signalling(handle, async (input, next) => {
    if (input.workflowExecution.workflowId === unreachable.workflowId) throw new Error('unreachable');
    return next(input);
  });
  await expect(failing.remove()).rejects.toThrow('unreachable');
  const told = () => Promise.all(['01', '02', '03'].map((hour) => countDismissals(runOf(server, handle, hour))));
  expect(await told()).toEqual([1, 0, 1]);
  await expect(handle.remove()).rejects.toThrow('there is no Schedule');
  expect((await told())[1]).toBe(1);
  await withWorker(() => expectFates(handle, ['skipped', 'skipped', 'skipped']));
  expect(upstream.created).toEqual([]);
});

test('of many runs that wait each is told once, ten at the same time', async () => {
  const { handle } = await workerlessJob(server);
  await listedHours(server, handle, 0, 23);
  let [inFlight, most] = [0, 0];
  const watched = signalling(handle, async (input, next) => {
    most = Math.max(most, ++inFlight);
    await next(input).finally(() => (inFlight -= 1));
  });
  await watched.remove();
  expect(most).toBe(10);
  const runs = await runsOf(handle);
  const counts = runs.map(({ runWorkflowId }) => countDismissals(server.client.workflow.getHandle(runWorkflowId)));
  expect(await Promise.all(counts)).toEqual(Array.from({ length: 24 }, () => 1));
  await Promise.all(runs.map(({ runWorkflowId }) => server.client.workflow.getHandle(runWorkflowId).terminate()));
});

test('a run that is not listed at first is told too', async () => {
  const { handle, withWorker } = await workerlessJob(server);
  await runHours(server, handle, 1);
  await expect
    .poll(() =>
      runOf(server, handle, '01')
        .describe()
        .catch(() => null),
    )
    .not.toBeNull();
  const list = vi.spyOn(server.client.workflowService, 'listWorkflowExecutions');
  list.mockResolvedValueOnce({ executions: [] } as never);
  await handle.remove();
  expect(list).toHaveBeenCalledTimes(2);
  list.mockRestore();
  await withWorker(() => expectFates(handle, ['skipped']));
});

test('where nothing waits, nor was started lately, it looks once', async () => {
  const { handle } = await workerlessJob(server);
  const list = vi.spyOn(server.client.workflowService, 'listWorkflowExecutions');
  await handle.remove();
  expect(list).toHaveBeenCalledTimes(1);
});

test('where the Schedule is about to start a run, it looks twice', async () => {
  const { handle, withWorker } = await workerlessJob(server, { every: '1 minute', paused: false });
  const list = vi.spyOn(server.client.workflowService, 'listWorkflowExecutions');
  await handle.remove();
  expect(list).toHaveBeenCalledTimes(2);
  // One may have been started by then.
  await withWorker(() =>
    expect.poll(async () => (await runsOf(handle)).every(({ closedAt }) => closedAt !== null)).toBe(true),
  );
});

/** Schedules that another tool, or another client of ours, has changed: on a real server. */
import { randomBytes, randomUUID } from 'node:crypto';
import { Client, ScheduleOverlapPolicy, type ScheduleHandle, type ScheduleUpdateOptions } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listWithLastRuns } from '../../src/cli/schedule.js';
import { changeSchedule } from '../../src/client/schedules.js';
import { AgentJobs, type JobScheduleHandle, type JobScheduleSettings } from '../../src/starter.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { payloadCodecs } from '../../src/temporal/payload-codec.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';

let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  await ensureSearchAttributes(server.client.connection, server.namespace);
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(async () => server.close());

/** A paused recurring job, as another tool changed it. */
async function changedByOthers(
  settings: Partial<JobScheduleSettings>,
  change: (current: ScheduleUpdateOptions) => object,
): Promise<{ handle: JobScheduleHandle; raw: ScheduleHandle; set: (settings: object) => Promise<unknown> }> {
  const { projectId, name } = { projectId: `p/${randomUUID()}`, name: 'nightly' };
  const whenever = settings.every === undefined ? { cron: '30 4 * * *' } : {};
  const made = { projectId, name, prompt: 'Review {date}', ...whenever, paused: true, ...settings };
  const handle = await jobs.schedule(made);
  const raw = server.client.schedule.getHandle(handle.scheduleId);
  await changeSchedule(server.client, handle.scheduleId, (current) => ({ ...current, ...change(current) }));
  return { handle, raw, set: (more) => jobs.schedule({ projectId, name, ...more }) };
}

test('an interval with an offset is not told as one without, and stays at a change of something else', async () => {
  const { handle, raw, set } = await changedByOthers({ every: '1 day' }, ({ spec }) => ({
    spec: { ...spec, intervals: [{ every: '1 day', offset: '4 hours' }] },
  }));
  expect(await handle.describe()).toMatchObject({ cron: null, everyMs: null });
  await set({ priority: 1 });
  expect((await raw.describe()).spec.intervals).toMatchObject([{ every: 86_400_000, offset: 14_400_000 }]);
  await set({ every: '12 hours' });
  expect(await handle.describe()).toMatchObject({ everyMs: 43_200_000, options: { priority: 1 } });
  await handle.remove();
});

test('a comment that is no cron expression is not told as one, and any setting may be changed', async () => {
  const { handle, raw, set } = await changedByOthers({}, ({ spec }) => ({
    spec: { ...spec, calendars: [{ hour: 9, comment: 'mornings' }], cronExpressions: [] },
  }));
  expect(await handle.describe()).toMatchObject({ cron: null, everyMs: null });
  await set({ deadline: '1 hour' });
  expect((await raw.describe()).spec.calendars).toMatchObject([{ hour: [{ start: 9 }], comment: 'mornings' }]);
  await handle.remove();
});

test('the hour and the time zone that another tool set stay at a change of something else', async () => {
  const { handle, raw, set } = await changedByOthers({ timeZone: 'Europe/Paris' }, ({ spec }) => ({
    spec: { ...spec, calendars: [{ hour: 9, minute: 30, comment: '30 4 * * *' }], timezone: 'Asia/Tokyo' },
  }));
  await set({ priority: 1 });
  const { spec } = await raw.describe();
  expect(spec).toMatchObject({ calendars: [{ hour: [{ start: 9 }] }], timezone: 'Asia/Tokyo' });
  await set({ timeZone: 'Europe/Paris' });
  expect((await raw.describe()).spec.timezone).toBe('Europe/Paris');
  await handle.remove();
});

test('what another tool has set beside our settings stays at a change of something else', async () => {
  const { handle, raw, set } = await changedByOthers({ overlap: 'queue' }, ({ action, policies }) => ({
    action: {
      ...action,
      args: [{ ...(action as unknown as { args: [object] }).args[0], foreign: 1 }],
      workflowRunTimeout: '2 days',
      memo: { foreign: 2 },
    },
    policies: { ...policies, overlap: ScheduleOverlapPolicy.BUFFER_ALL, pauseOnFailure: true },
  }));
  expect(await handle.describe()).toMatchObject({ overlap: null, problem: null });
  await set({ priority: 1 });
  const { action, policies } = await raw.describe();
  expect(policies).toMatchObject({ overlap: 'BUFFER_ALL', pauseOnFailure: true });
  expect(action).toMatchObject({ workflowRunTimeout: 172_800_000, memo: { foreign: 2 }, args: [{ foreign: 1 }] });
  await set({ overlap: 'skip' });
  expect((await raw.describe()).policies.overlap).toBe('SKIP');
  await handle.remove();
});

test.for([
  [
    'a policy',
    'CANCEL_OTHER',
    { overlap: 'skip' },
    ({ policies }: ScheduleUpdateOptions) => ({
      policies: { ...policies, overlap: ScheduleOverlapPolicy.CANCEL_OTHER },
    }),
  ],
  [
    'a workflow type',
    'it starts recurringJobs instead of recurringJob',
    {},
    ({ action }: ScheduleUpdateOptions) => ({
      action: { ...action, workflowType: 'recurringJobs' },
    }),
  ],
] as const)('%s under which times pass without a run is told until it is set right', async ([, told, mend, change]) => {
  const { handle, set } = await changedByOthers({}, change);
  expect((await handle.describe()).problem).toContain(told);
  await set(mend);
  expect((await handle.describe()).problem).toBeNull();
  await handle.remove();
});

test('a limit with no actions left is told', async () => {
  const { handle } = await changedByOthers({}, ({ state }) => ({ state: { ...state, remainingActions: 0 } }));
  expect((await handle.describe()).problem).toContain('none is left');
  await handle.remove();
});

/** A paused Schedule of exports, as another tool changed it. */
async function exportChangedByOthers(change: (current: ScheduleUpdateOptions) => object) {
  const projectId = `p/${randomUUID()}`;
  await jobs.ensureExportSchedule({ projectId, paused: true });
  const schedule = jobs.exportSchedule(projectId);
  await changeSchedule(server.client, schedule.scheduleId, (current) => ({ ...current, ...change(current) }));
  const raw = server.client.schedule.getHandle(schedule.scheduleId);
  return { schedule, raw, set: (more: object) => jobs.ensureExportSchedule({ projectId, ...more }) };
}

test('of a Schedule of exports, too, what another tool has set stays at a change of something else', async () => {
  const { schedule, raw, set } = await exportChangedByOthers(({ spec, action, policies }) => ({
    spec: {
      ...spec,
      calendars: [{ hour: 3 }, { hour: 15, dayOfWeek: 'MONDAY' }],
      intervals: [{ every: '1 day', offset: '4 hours' }],
      timezone: 'Asia/Tokyo',
    },
    action: {
      ...action,
      args: [{ ...(action as unknown as { args: [object] }).args[0], foreign: 1 }],
      workflowRunTimeout: '2 days',
    },
    policies: { ...policies, overlap: ScheduleOverlapPolicy.ALLOW_ALL, catchupWindow: '2 days' },
  }));
  expect(await schedule.describe()).toMatchObject({ hour: null, minute: null, problem: null });
  await set({ days: 7 });
  const { spec, action, policies } = await raw.describe();
  expect(spec).toMatchObject({
    calendars: [{ hour: [{ start: 3 }] }, { hour: [{ start: 15 }], dayOfWeek: [{ start: 'MONDAY' }] }],
    intervals: [{ every: 86_400_000, offset: 14_400_000 }],
    timezone: 'Asia/Tokyo',
  });
  expect(action).toMatchObject({ workflowRunTimeout: 172_800_000, args: [{ days: 7, foreign: 1 }] });
  expect(policies).toMatchObject({ overlap: 'ALLOW_ALL', catchupWindow: 172_800_000 });
  await set({ hour: 5 });
  expect(await schedule.describe()).toMatchObject({ hour: 5, minute: 30, days: 7 });
  expect((await raw.describe()).spec).toMatchObject({ intervals: [], timezone: 'UTC' });
  await schedule.remove();
});

test.for([
  [
    'SKIP',
    ({ policies }: ScheduleUpdateOptions) => ({
      policies: { ...policies, overlap: ScheduleOverlapPolicy.SKIP },
    }),
  ],
  [
    'it starts visitors instead of visitorExport',
    ({ action }: ScheduleUpdateOptions) => ({
      action: { ...action, workflowType: 'visitors' },
    }),
  ],
  ['none is left', ({ state }: ScheduleUpdateOptions) => ({ state: { ...state, remainingActions: 0 } })],
] as const)('of a Schedule of exports, too, it is told why times pass without a run: %s', async ([told, change]) => {
  const { schedule } = await exportChangedByOthers(change);
  expect((await schedule.describe()).problem).toContain(told);
  await schedule.remove();
});

test('whoever mends a prompt keeps the other settings', async () => {
  const others = { overlap: 'queue', deadline: '2 hours', priority: 1 } as const;
  const { handle, set } = await changedByOthers(others, ({ action }) => ({
    action: { ...action, args: [{ ...(action as unknown as { args: [object] }).args[0], prompt: 'Review {now}' }] },
  }));
  const kept = { overlap: 'queue', options: { deadline: '2 hours', priority: 1 } };
  const described = await handle.describe();
  expect(described).toMatchObject({ ...kept, prompt: 'Review {now}' });
  expect(described.problem).toContain('prompt has an unknown placeholder');
  await set({ prompt: 'Review {time}' });
  expect(await handle.describe()).toMatchObject({ ...kept, problem: null });
  await handle.remove();
});

test('a prompt that one client hides stays hidden at a change by another', async () => {
  const hiding = new AgentJobs({ client: server.client, taskQueue: server.taskQueue, hidePrompts: true });
  const { projectId, name } = { projectId: `p/${randomUUID()}`, name: 'nightly' };
  const handle = await hiding.schedule({ projectId, name, prompt: 'A secret', cron: '30 4 * * *', paused: true });
  await jobs.schedule({ projectId, name, priority: 1 });
  const { action } = await server.client.schedule.getHandle(handle.scheduleId).describe();
  expect(action.memo).toEqual({ hidePrompts: true });
  const { schedule } = await server.client.workflowService.describeSchedule({
    namespace: server.namespace,
    scheduleId: handle.scheduleId,
  });
  const details = schedule?.action?.startWorkflow?.userMetadata?.details?.data ?? [];
  expect(Buffer.from(details).toString()).not.toContain('A secret');
  await handle.remove();
});

test('a Schedule whose names none of ours can have is listed without a last run, and hides no other', async () => {
  const { handle } = await changedByOthers({}, () => ({}));
  const odd = await server.client.schedule.create({
    scheduleId: 'recurring-job//odd',
    spec: {},
    action: { type: 'startWorkflow', workflowType: 'recurringJob', taskQueue: server.taskQueue, args: [{}] },
  });
  const list = async () => {
    const listed = await listWithLastRuns(jobs, {}, new AbortController().signal);
    return listed.filter(({ scheduleId }) => [odd.scheduleId, handle.scheduleId].includes(scheduleId));
  };
  const [problem, none] = [expect.any(String) as string, null];
  // A new Schedule shows in lists a moment later.
  await expect.poll(list).toMatchObject([
    { problem, lastRun: none },
    { problem: none, lastRun: none },
  ]);
  await odd.delete();
  await handle.remove();
});

test('a Schedule that can not be decoded is listed with its problem, and hides no other', async () => {
  const { handle } = await changedByOthers({}, () => ({}));
  const { connection } = server.client;
  const key = randomBytes(32);
  const keys = { current: (): [string, Buffer] => ['theirs', key], byId: () => key };
  const client = new Client({ connection, namespace: server.namespace, dataConverter: payloadCodecs(keys) });
  const encrypting = new AgentJobs({ client, taskQueue: server.taskQueue });
  const projectId = `p/${randomUUID()}`;
  const made = { projectId, name: 'nightly', prompt: 'Review {date}', every: '1 day', paused: true };
  const lost = await encrypting.schedule(made);
  await encrypting.ensureExportSchedule({ projectId, days: 7, paused: true });
  const list = async () => {
    const listed = await jobs.schedules();
    return listed.filter(({ projectId }) => [lost.projectId, handle.projectId].includes(projectId));
  };
  const undecoded = expect.stringContaining('its input can not be decoded: ') as string;
  const told = { projectId, name: 'nightly', everyMs: 86_400_000, paused: true, problem: undecoded };
  await expect.poll(list).toHaveLength(2);
  expect(await list()).toEqual(
    expect.arrayContaining([
      expect.objectContaining(told),
      expect.objectContaining({ projectId: handle.projectId, problem: null }),
    ]),
  );
  const exports = async () => (await jobs.exportSchedules()).filter((each) => each.projectId === projectId);
  await expect.poll(exports).toMatchObject([{ problem: undecoded, hour: 4, minute: 30 }]);
  await expect(jobs.schedule({ projectId, name: 'nightly', priority: 1 })).rejects.toThrow('Unknown encoding');
  const recurring = jobs.recurring({ projectId, name: 'nightly' });
  await recurring.resume();
  await recurring.pause('who has the key?');
  expect(await encrypting.recurring({ projectId, name: 'nightly' }).describe()).toMatchObject({
    ...{ prompt: 'Review {date}', everyMs: 86_400_000, paused: true, note: 'who has the key?', problem: null },
  });
  await lost.remove();
  await jobs.exportSchedule(projectId).remove();
  await handle.remove();
});

test('an export Schedule whose input another tool has broken is told', async () => {
  const { schedule, set } = await exportChangedByOthers(({ action }) => ({
    action: { ...action, args: [{ timeZone: 'UTC', days: 0 }] },
  }));
  expect((await schedule.describe()).problem).toContain('projectId must be');
  await set({ days: 2 });
  expect(await schedule.describe()).toMatchObject({ problem: null, days: 2 });
  await schedule.remove();
});

test('a pause whose note is empty pauses, and so does its end', async () => {
  const settings = { projectId: `p/${randomUUID()}`, name: 'nightly', prompt: 'Review {date}', cron: '30 4 * * *' };
  const handle = await jobs.schedule(settings);
  await handle.pause('');
  expect(await handle.describe()).toMatchObject({ paused: true, note: 'paused' });
  await handle.resume('');
  expect(await handle.describe()).toMatchObject({ paused: false, note: 'resumed' });
  await handle.remove();
});

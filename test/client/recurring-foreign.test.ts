/** Schedules of recurring jobs that another tool, or another client of ours, has changed: on a real server. */
import { randomBytes, randomUUID } from 'node:crypto';
import { Client, ScheduleOverlapPolicy, type ScheduleHandle, type ScheduleUpdateOptions } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { withLastRuns } from '../../src/cli/schedule-job.js';
import { changeSchedule } from '../../src/client/schedule-change.js';
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

test('a policy that lets Temporal leave times out is told, and any change sets it right', async () => {
  const { handle, raw, set } = await changedByOthers({}, ({ policies }) => ({
    policies: { ...policies, overlap: ScheduleOverlapPolicy.SKIP },
  }));
  expect((await handle.describe()).problem).toBe(
    'must start recurringJob with overlap ALLOW_ALL; it starts recurringJob with overlap SKIP',
  );
  await set({ priority: 1 });
  expect((await handle.describe()).problem).toBeNull();
  expect((await raw.describe()).policies.overlap).toBe('ALLOW_ALL');
  await handle.remove();
});

test('a workflow type that is none of ours is told, and any change sets it right', async () => {
  const { handle, set } = await changedByOthers({}, ({ action }) => ({
    action: { ...action, workflowType: 'recurringJobs' },
  }));
  expect((await handle.describe()).problem).toBe(
    'must start recurringJob with overlap ALLOW_ALL; it starts recurringJobs with overlap ALLOW_ALL',
  );
  await set({ priority: 1 });
  expect((await handle.describe()).problem).toBeNull();
  await handle.remove();
});

test('whoever mends a prompt keeps the other settings', async () => {
  const others = { overlap: 'queue', queueFor: '6 hours', deadline: '2 hours', priority: 1 } as const;
  const { handle, set } = await changedByOthers(others, ({ action }) => ({
    action: { ...action, args: [{ ...(action as unknown as { args: [object] }).args[0], prompt: 'Review {now}' }] },
  }));
  const kept = { overlap: 'queue', queueForMs: 21_600_000, options: { deadline: '2 hours', priority: 1 } };
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
    const listed = await withLastRuns(jobs, await jobs.schedules(), new AbortController().signal);
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
  const keys = { current: (): [string, Buffer] => ['lost', randomBytes(32)], byId: () => Buffer.alloc(32) };
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
  await lost.remove();
  await jobs.exportSchedule(projectId).remove();
  await handle.remove();
});

test('an export Schedule whose input another tool has broken is told', async () => {
  const projectId = `p/${randomUUID()}`;
  await jobs.ensureExportSchedule({ projectId, paused: true });
  const schedule = jobs.exportSchedule(projectId);
  await changeSchedule(server.client, schedule.scheduleId, (current) => ({
    ...current,
    action: { ...current.action, args: [{ projectId, timeZone: 'UTC', days: 0 }] },
  }));
  expect((await schedule.describe()).problem).toContain('days must be');
  await jobs.ensureExportSchedule({ projectId, days: 2 });
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

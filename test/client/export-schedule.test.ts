import { randomBytes, randomUUID } from 'node:crypto';
import { Client, ScheduleNotFoundError } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { visitorExportScheduleId } from '../../src/contract.js';
import { isTimeZone } from '../../src/contract/kinds.js';
import { AgentJobs } from '../../src/starter.js';
import { listManifests } from '../../src/exports/snapshots/catalog.js';
import { reportKey } from '../../src/exports/snapshots/layout.js';
import { payloadCodecs } from '../../src/temporal/payload-codec.js';
import { setUpExport, until, withWorkers, type ExportSetUp } from '../export/export.js';
import { connectDevServer } from '../support/dev-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectDevServer);
let setUp: ExportSetUp;
let jobs: AgentJobs;
beforeAll(async () => {
  setUp = await setUpExport(server, { visitors: { rows: 3 } });
  jobs = new AgentJobs({ client: server.client, taskQueue: setUp.server.taskQueue });
});
afterAll(async () => {
  await setUp.close();
});

const newProject = () => `p/${randomUUID()}`;

const rawScheduleOf = (projectId: string) => server.client.schedule.getHandle(visitorExportScheduleId(projectId));

test('a new Schedule has the defaults and catches up for a week; only what is given later changes', async () => {
  const projectId = newProject();
  const raw = rawScheduleOf(projectId);
  const defaults = { timeZone: 'Europe/Paris', hour: 4, minute: 30, days: 3, jitterMs: 600_000 };
  const made = await jobs.scheduleExports({ projectId, timeZone: 'europe/PARIS', jitter: null });
  expect(made).toMatchObject({ ...defaults, projectId, scheduleId: raw.scheduleId, isNew: true });
  expect(made).toMatchObject({ paused: false });
  const policies = { overlap: 'BUFFER_ONE', catchupWindow: 7 * 86_400_000, pauseOnFailure: false };
  expect(await raw.describe()).toMatchObject({ policies });
  await raw.pause('until Monday');
  const elsewhere = new AgentJobs({ client: server.client, taskQueue: 'elsewhere' });
  const settings = { projectId, hour: 5, minute: null, days: 7, jitter: '1 minute', paused: null };
  const changed = { timeZone: 'Europe/Paris', hour: 5, minute: 30, days: 7, jitterMs: 60_000 };
  const paused = { paused: true, note: 'until Monday', nextRunAt: null };
  const { taskQueue } = setUp.server;
  const again = await elsewhere.scheduleExports(settings);
  expect(again).toMatchObject({ ...changed, ...paused, isNew: false, taskQueue });
  const moved = await elsewhere.scheduleExports({ projectId, taskQueue: 'elsewhere' });
  expect(moved).toMatchObject({ ...changed, taskQueue: 'elsewhere' });
  const resumed = await jobs.scheduleExports({ projectId, paused: false });
  expect(resumed).toMatchObject({ ...changed, paused: false });
  expect(resumed.nextRunAt).toMatch(/T0[34]:30:/);
  await raw.delete();
});

test('what another tool added to a Schedule stays, but for what is given', async () => {
  const projectId = newProject();
  const raw = rawScheduleOf(projectId);
  await jobs.scheduleExports({ projectId, paused: true });
  const endAt = new Date('2099-01-01T00:00:00Z');
  await raw.update((current) => ({
    ...current,
    spec: {
      ...current.spec,
      calendars: [{ hour: 4, minute: 30, dayOfWeek: { start: 'MONDAY', end: 'FRIDAY' } }],
      endAt,
    },
    action: { ...current.action, memo: { team: 'web' } },
  }));
  const workdays = [{ start: 'MONDAY', end: 'FRIDAY', step: 1 }];
  for (const [given, hour, minute] of [
    [{ days: 2 }, 4, 30],
    [{ hour: 6 }, 6, 30],
    [{ timeZone: 'Europe/Paris', minute: 15 }, 6, 15],
  ] as const) {
    expect(await jobs.scheduleExports({ projectId, ...given })).toMatchObject({ hour, minute, days: 2 });
    const { spec, action } = await raw.describe();
    expect(spec).toMatchObject({ calendars: [{ dayOfWeek: workdays, hour: [{ start: hour }] }], endAt });
    expect(action).toMatchObject({ memo: { team: 'web' }, args: [{ projectId, days: 2 }] });
  }
  await raw.delete();
});

test('a Schedule whose runs another tool timed by intervals keeps them until a time of day is given', async () => {
  const projectId = newProject();
  const raw = rawScheduleOf(projectId);
  await jobs.scheduleExports({ projectId, paused: true });
  await raw.update((current) => ({ ...current, spec: { intervals: [{ every: '12 hours' }] } }));
  expect(await jobs.scheduleExports({ projectId, days: 2 })).toMatchObject({ hour: null, minute: null, days: 2 });
  expect((await raw.describe()).spec.intervals).toHaveLength(1);
  expect(await jobs.scheduleExports({ projectId, hour: 5 })).toMatchObject({ hour: 5, minute: 30 });
  expect((await raw.describe()).spec).toMatchObject({ intervals: [], calendars: [{ hour: [{ start: 5 }] }] });
  await raw.delete();
});

test('a Schedule of that id that starts another workflow is an error, and stays', async () => {
  const projectId = newProject();
  const raw = await server.client.schedule.create({
    scheduleId: visitorExportScheduleId(projectId),
    spec: {},
    action: { type: 'startWorkflow', workflowType: 'buildRelease', taskQueue: 'other' },
  });
  await expect(jobs.scheduleExports({ projectId })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('starts buildRelease') as string,
  });
  expect((await raw.describe()).action).toMatchObject({ workflowType: 'buildRelease', taskQueue: 'other' });
  await raw.delete();
});

test('Schedules are listed; one whose input the client can not decrypt has no days, and hides no other', async () => {
  const [readable, encrypted] = [newProject(), newProject()];
  const key = randomBytes(32);
  const current: [string, Buffer] = ['theirs', key];
  const keys = { current: () => Promise.resolve(current), byId: () => Promise.resolve(key) };
  const { connection } = server.client;
  const client = new Client({ connection, namespace: server.namespace, dataConverter: payloadCodecs(keys) });
  const encrypting = new AgentJobs({ client, taskQueue: server.taskQueue });
  await jobs.scheduleExports({ projectId: readable, paused: true });
  await encrypting.scheduleExports({ projectId: encrypted, days: 7, paused: true });
  const days = async () => {
    const listed = (await jobs.exportSchedules()).map(({ projectId, days }) => [projectId, days] as const);
    return listed.filter(([projectId]) => [readable, encrypted].includes(projectId)).map(([, days]) => days);
  };
  // Temporal's lists lag behind.
  await expect.poll(async () => new Set(await days())).toEqual(new Set([3, null]));
  for (const projectId of [readable, encrypted]) await rawScheduleOf(projectId).delete();
  await expect.poll(days).toEqual([]);
});

test.each([
  [{ timeZone: 'Mars/Olympus' }, 'timeZone'],
  [{ hour: 24 }, 'hour'],
  [{ minute: 1.5 }, 'minute'],
  [{ days: 0 }, 'days'],
  [{ jitter: 'soon' }, 'jitter'],
])('invalid settings are named before anything is sent: %j', async (settings, field) => {
  const projectId = newProject();
  await expect(jobs.scheduleExports({ projectId, ...settings })).rejects.toThrow(field);
  await expect(rawScheduleOf(projectId).describe()).rejects.toThrow(ScheduleNotFoundError);
});

test('a time zone in any case is taken as a name that the server knows, and other names stay', async () => {
  const given = ['europe/paris', 'utc', 'asia/kolkata', 'ASIA/KOLKATA', 'us/pacific', 'gb', 'zulu', 'etc/gmt+5'];
  const own = ['Asia/Kolkata', 'US/Pacific', 'Etc/UTC', 'EST', 'Australia/ACT', 'America/Port_of_Spain', 'GB'];
  const taken: string[] = [];
  for (const timeZone of [...given, ...own]) {
    const projectId = newProject();
    taken.push((await jobs.scheduleExports({ projectId, timeZone, paused: true })).timeZone);
    await rawScheduleOf(projectId).delete();
  }
  expect(taken.every(isTimeZone)).toBe(true);
  expect(taken.slice(given.length)).toEqual(own);
});

test('a scheduled run exports the days before it by its nominal time, and writes the report', async () => {
  const projectId = newProject();
  await jobs.scheduleExports({ projectId, timeZone: 'America/Los_Angeles', days: 2, paused: true });
  const handle = rawScheduleOf(projectId);
  await withWorkers(setUp, async () => {
    // The run that begins within this day of UTC, after the clocks have changed.
    const [start, end] = [new Date('2026-03-09T00:00:00Z'), new Date('2026-03-09T23:59:59Z')];
    await handle.backfill({ start, end, overlap: 'ALLOW_ALL' });
    // The report is the last thing that a run writes.
    await until(async () => (await setUp.store.size(reportKey(projectId))) !== null);
  });
  const days: string[] = [];
  for await (const { dateFrom } of listManifests(setUp.store, projectId)) days.push(dateFrom);
  expect(days).toEqual(['2026-03-07', '2026-03-08']);
  expect(String(await setUp.store.read(reportKey(projectId)))).toContain('2026-03-07 to ');
  expect((await handle.describe()).info.numActionsTaken).toBe(1);
  await handle.delete();
});

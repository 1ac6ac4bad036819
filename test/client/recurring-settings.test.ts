import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { changeSchedule } from '../../src/client/schedules.js';
import { AgentJobs, InvalidInputError, type JobScheduleSettings } from '../../src/starter.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';

let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  await ensureSearchAttributes(server.client.connection, server.namespace);
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(async () => server.close());

const newJob = (): JobScheduleSettings => ({
  projectId: `p/${randomUUID()}`,
  name: 'nightly review',
  prompt: 'Review {date}',
  cron: '30 4 * * 1-5',
});

test('a new recurring job has the defaults; what is given later changes, the rest and the pause stay', async () => {
  const { projectId, name, ...settings } = newJob();
  const made = await jobs.schedule({ projectId, name, ...settings, timeZone: 'Europe/Paris', deadline: '2 hours' });
  expect(made.isNew).toBe(true);
  expect(await made.describe()).toMatchObject({
    ...{ projectId, name, prompt: 'Review {date}', timeZone: 'Europe/Paris', cron: '30 4 * * 1-5', everyMs: null },
    ...{ jitterMs: 0, catchUpMs: 86_400_000, overlap: 'skip', options: { deadline: '2 hours' } },
    ...{ paused: false, skippedRuns: 0, missedRuns: 0, problem: null, taskQueue: server.taskQueue },
  });
  expect((await made.describe()).nextRunAt).toMatch(/T0[23]:30:00/);
  await made.pause('until Monday');
  const changed = await jobs.schedule({
    projectId,
    name,
    overlap: 'queue',
    priority: 1,
    deadline: null,
    jitter: 5_000,
  });
  expect(changed.isNew).toBe(false);
  expect(await changed.describe()).toMatchObject({
    ...{ cron: '30 4 * * 1-5', timeZone: 'Europe/Paris', overlap: 'queue', jitterMs: 5_000, options: { priority: 1 } },
    ...{ paused: true, note: 'until Monday', nextRunAt: null },
  });
  await jobs.schedule({ projectId, name, every: '90 minutes', paused: false });
  expect(await changed.describe()).toMatchObject({ cron: null, everyMs: 5_400_000, paused: false });
  expect((await changed.describe()).options).toEqual({ priority: 1 });
  const listed = async () => (await jobs.schedules({ projectId })).map(({ scheduleId }) => scheduleId);
  await expect.poll(listed).toEqual([changed.scheduleId]);
  await changed.remove();
});

test.for([
  ['skip', 'SKIP'],
  ['queue', 'BUFFER_ONE'],
] as const)('overlap %s is Temporal’s own policy %s, and catchUp its window', async ([overlap, policy]) => {
  const handle = await jobs.schedule({ ...newJob(), overlap, catchUp: '3 hours', paused: true });
  const { policies, typedSearchAttributes } = await server.client.schedule.getHandle(handle.scheduleId).describe();
  expect(policies).toMatchObject({ overlap: policy, catchupWindow: 10_800_000, pauseOnFailure: false });
  expect(typedSearchAttributes.getAll().map(({ value }) => value)).toContain(handle.projectId);
  await handle.remove();
});

test('what other tools have set stays: times of another kind, and an input that makes no job is told', async () => {
  const handle = await jobs.schedule({ ...newJob(), paused: true });
  const raw = server.client.schedule.getHandle(handle.scheduleId);
  await changeSchedule(server.client, handle.scheduleId, (current) => ({
    ...current,
    spec: { calendars: [{ hour: 3 }, { hour: 15 }], timezone: 'UTC' },
    action: { ...current.action, args: [{ projectId: 'p', prompt: '{now}' }] },
  }));
  const problem = expect.stringContaining('name') as string;
  await expect
    .poll(() => jobs.schedules({ projectId: handle.projectId }))
    .toMatchObject([{ cron: null, everyMs: null, prompt: '{now}', problem }]);
  await jobs.schedule({ projectId: handle.projectId, name: handle.name, prompt: 'Review {time}' });
  expect(await handle.describe()).toMatchObject({ problem: null, prompt: 'Review {time}' });
  expect((await raw.describe()).spec.calendars?.map(({ hour }) => hour[0]?.start)).toEqual([3, 15]);
  await handle.remove();
});

test.each<[string, Partial<JobScheduleSettings>]>([
  ['projectId', { projectId: '' }],
  ['name must be', { name: '' }],
  ['name must be', { name: 'a\nb' }],
  ['name must be', { name: 'x'.repeat(101) }],
  ['name must be shorter by 13 characters', { projectId: 'p'.repeat(190), name: 'n'.repeat(40) }],
  ['prompt must be 1 byte', { prompt: '' }],
  ['prompt has an unknown placeholder', { prompt: 'of {day}' }],
  ['prompt must be 1 byte to 524288 bytes of UTF-8; it is 524289', { prompt: `{date}${'x'.repeat(512 * 1024 - 9)}` }],
  ['timeZone', { timeZone: '+01:00' }],
  ['cron and every must not be given together', { every: '1 hour' }],
  ['every must be at least 1 minute', { cron: undefined, every: '59 seconds' }],
  ['whole seconds', { cron: undefined, every: 90_500 }],
  ['cron must be a cron expression', { cron: 'CRON_TZ=Asia/Tokyo 0 4 * * *' }],
  ['cron must be a cron expression', { cron: '*/5 * * * * * *' }],
  ['cron must be a cron expression', { cron: '@every 1s' }],
  ['cron must be a cron expression', { cron: '0 4 * * * # four' }],
  ['cron must have at most 200 characters; it has 203', { cron: `${'0,'.repeat(96)}0 4 * * 1-5` }],
  ['cron is refused by Temporal: Minute is not in range [0-59]', { cron: '61 4 * * *' }],
  ['jitter', { jitter: 'soon' }],
  ['overlap must be skip or queue', { overlap: 'both' as never }],
  ['catchUp must be 10 seconds', { catchUp: 5_000 }],
  ['deadline', { deadline: 'soon' }],
  ['priority', { priority: 7 as never }],
  ['input must be at most 1900000 bytes as JSON; it is 19', { foreign: 'x'.repeat(1_900_000) } as never],
])('a wrong setting is refused by name and makes no Schedule: %s', async (message, wrong) => {
  const settings = { ...newJob(), ...wrong };
  const allowUnknown = 'foreign' in wrong;
  const refused = await jobs.schedule(settings, { allowUnknown }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(InvalidInputError);
  expect((refused as Error).message).toContain(message);
  expect(await jobs.schedules({ projectId: settings.projectId })).toEqual([]);
});

test('a change is refused as a new one is, and one of a job that is not there says what a new one needs', async () => {
  const { projectId, name, ...settings } = newJob();
  await expect(jobs.schedule({ projectId, name, overlap: 'queue' })).rejects.toThrow('prompt must be given');
  await expect(jobs.schedule({ projectId, name, prompt: 'x' })).rejects.toThrow('cron or every must be given');
  const handle = await jobs.schedule({ projectId, name, ...settings, paused: true });
  const before = await handle.describe();
  await expect(jobs.schedule({ projectId, name, cron: '0 25 * * *' })).rejects.toThrow('cron is refused by Temporal');
  await expect(jobs.schedule({ projectId, name, prompt: '{' })).rejects.toThrow('prompt has a lone brace');
  expect(await handle.describe()).toEqual(before);
  await handle.remove();
});

test.each([
  // 02:30 comes twice on the 25th of October 2026 in Paris, and not at all on the 29th of March.
  ['30 2 * * *', 'Europe/Paris', '2026-03-28T12', ['2026-03-30T00:30']],
  ['30 2 * * *', 'Europe/Paris', '2026-10-24T12', ['2026-10-25T01:30', '2026-10-26T01:30']],
  // 01:30 comes twice on the 1st of November in New York, and runs twice; 02:30 does not come on the 8th of March.
  ['30 1 * * *', 'America/New_York', '2026-10-31T12', ['2026-11-01T05:30', '2026-11-01T06:30', '2026-11-02T06:30']],
  ['30 2 * * *', 'America/New_York', '2026-03-07T12', ['2026-03-09T06:30']],
  // Half an hour is left out on the 4th of October on Lord Howe: 02:15 comes as 02:45.
  ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00', ['2026-10-03T15:45', '2026-10-04T15:15']],
])(
  'where the clocks change, Temporal decides which local times come: %s in %s after %s',
  async (cron, timeZone, start, times) => {
    const handle = await jobs.schedule({ ...newJob(), cron, timeZone, paused: true });
    const end = new Date(Date.parse(`${start}:00:00Z`) + 48 * 3_600_000).toISOString();
    const seconds = (iso: string) => ({ seconds: Date.parse(iso) / 1_000 }) as never;
    const found = await server.client.workflowService.listScheduleMatchingTimes({
      ...{ namespace: server.namespace, scheduleId: handle.scheduleId },
      ...{ startTime: seconds(`${start}:00:00Z`), endTime: seconds(end) },
    });
    expect(found.startTime.map((at) => new Date(Number(at.seconds) * 1_000).toISOString().slice(0, 16))).toEqual(times);
    await handle.remove();
  },
);

test('the longest project and name make ids that every server keeps', async () => {
  const handle = await jobs.schedule({ ...newJob(), projectId: 'p'.repeat(190), name: 'n'.repeat(27), paused: true });
  expect('temporal-sys-scheduler:'.length + handle.scheduleId.length).toBe(255);
  expect(`${handle.scheduleId}-2026-03-10T00:00:00Z`.length).toBeLessThanOrEqual(255);
  await handle.remove();
});

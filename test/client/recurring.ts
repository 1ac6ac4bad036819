/** Recurring jobs of their own name, on a server with a worker; times come by backfill, so that no test waits. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { JobScheduleHandle, JobScheduleSettings, RecurringRunSummary } from '../../src/starter.js';
import { QUICK, type JobServer } from './job-server.js';

/** Makes a recurring job, paused, of every hour. */
export function schedulePaused(
  { jobs, projectId }: Pick<JobServer, 'jobs' | 'projectId'>,
  settings: Partial<JobScheduleSettings> = {},
): Promise<JobScheduleHandle> {
  const name = `nightly-${randomUUID()}`;
  const prompt = `Review of {date} {time}, ${name}`;
  return jobs.schedule({ projectId, name, prompt, every: '1 hour', paused: true, ...QUICK, ...settings });
}

/** Has the times of these hours of 2026-03-10, UTC, come now, under the Schedule's own policy unless one is given. */
export async function runHours(
  { client }: Pick<JobServer, 'client'>,
  { scheduleId }: JobScheduleHandle,
  from: number,
  to = from,
  overlap?: 'ALLOW_ALL',
): Promise<void> {
  const at = (hour: number) => new Date(Date.UTC(2026, 2, 10, hour));
  const start = new Date(at(from).getTime() - 1_000);
  await client.schedule.getHandle(scheduleId).backfill({ start, end: at(to), ...(overlap && { overlap }) });
}

/** The runs by their hour, and those of one hour as they were started. */
export async function runsOf(handle: JobScheduleHandle): Promise<RecurringRunSummary[]> {
  const runs: RecurringRunSummary[] = [];
  for await (const run of handle.runs()) runs.push(run);
  const order = ({ scheduledAt, startedAt }: RecurringRunSummary) => `${scheduledAt} ${startedAt}`;
  return runs.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** Waits until the runs have these fates, by their hour. */
export async function expectFates(handle: JobScheduleHandle, fates: string[]): Promise<RecurringRunSummary[]> {
  await expect.poll(async () => (await runsOf(handle)).map(({ fate }) => fate)).toEqual(fates);
  return runsOf(handle);
}

/** How many times wait at the server. */
export async function countWaiting({ client }: Pick<JobServer, 'client'>, { scheduleId }: JobScheduleHandle) {
  return Number((await client.schedule.getHandle(scheduleId).describe()).raw.info?.bufferSize ?? 0);
}

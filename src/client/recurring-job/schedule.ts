/** The Schedules of recurring jobs: create, change, list. */
import {
  ScheduleNotFoundError,
  type Client,
  type ScheduleDescription,
  type ScheduleUpdateOptions,
} from '@temporalio/client';
import { recurringJobOf, recurringJobScheduleId } from '../../contract.js';
import type { ClientContext } from '../settings.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { changeSchedule } from '../schedule-change.js';
import { countPollers, ensureSchedule, listSchedules, stateAfter, stateOf, type ScheduleState } from '../schedules.js';
import type { CallOptions } from '../temporal-call.js';
import { hidesPrompt, specOf, type DescribedSpec } from './described-spec.js';
import {
  checkJobSchedule,
  mergedSpec,
  timesFor,
  toScheduleOptions,
  type JobScheduleSettings,
} from './schedule-spec.js';

/** The Schedule of a recurring job as Temporal has it. */
export interface JobSchedule extends DescribedSpec, ScheduleState {
  /** Workers that poll its task queue; with 0 a run would wait for ever. Null where Temporal does not tell. */
  workers: number | null;
  /** Times that were so long ago, after an outage of Temporal, that no run was started for them. */
  missedRuns: number;
}

/**
 * Creates the Schedule of a recurring job, or changes only the settings that are given. Without `paused` it stays
 * paused or active. Throws InvalidInputError.
 */
export async function ensureJobSchedule(
  client: Client,
  place: Pick<ClientContext, 'taskQueue' | 'hidePrompts'>,
  settings: JobScheduleSettings,
): Promise<'created' | 'updated'> {
  checkJobSchedule(settings);
  const { projectId, name, prompt, cron, every, paused } = settings;
  const scheduleId = recurringJobScheduleId(projectId, name);
  const optionsFor = (current: ScheduleDescription | null) => {
    const spec = mergedSpec(current && specOf(current), settings);
    const hidePrompts = place.hidePrompts || (current !== null && hidesPrompt(current));
    return toScheduleOptions(spec, { ...place, hidePrompts }, timesFor(spec, settings, current));
  };
  const change = (current: ScheduleDescription): ScheduleUpdateOptions => ({
    ...optionsFor(current),
    state: stateAfter(current, paused),
  });
  try {
    if (prompt == null || (cron ?? every) == null) return await changeSchedule(client, scheduleId, change);
    const fresh = { ...optionsFor(null), state: { paused: paused ?? false } };
    return await ensureSchedule(client, scheduleId, fresh, change);
  } catch (error) {
    throw toInvalidInput(settings, error);
  }
}

/** What settings lack to make a new recurring job. */
function missingSetting({ projectId, name, prompt }: JobScheduleSettings): InvalidInputError {
  const field = prompt == null ? 'prompt' : 'cron or every';
  return new InvalidInputError(field, `must be given: project ${projectId} has no recurring job ${name} yet`);
}

/** What Temporal says against a setting, in its own words; and what a new recurring job lacks. */
function toInvalidInput(settings: JobScheduleSettings, error: unknown): unknown {
  if (error instanceof ScheduleNotFoundError) return missingSetting(settings);
  // The SDK's error for a spec that the server refuses.
  if (!(error instanceof TypeError)) return error;
  const field = /time ?zone/i.test(error.message) ? 'timeZone' : settings.cron == null ? 'every' : 'cron';
  return new InvalidInputError(field, `is refused by Temporal: ${error.message}`);
}

/** The Schedules of recurring jobs in the namespace, or of one project, by id. */
export function listJobSchedules(
  client: Client,
  { projectId }: { projectId?: string | null | undefined } = {},
  options: CallOptions = {},
): Promise<JobSchedule[]> {
  const isWanted = (scheduleId: string) => {
    const job = recurringJobOf(scheduleId);
    return job !== null && (projectId == null || job.projectId === projectId);
  };
  return listSchedules(client, isWanted, (schedule) => toJobSchedule(client, schedule), options);
}

/** What Temporal tells of a Schedule, and who polls for it. */
export async function toJobSchedule(client: Client, schedule: ScheduleDescription): Promise<JobSchedule> {
  const state = stateOf(schedule);
  return {
    ...specOf(schedule),
    ...state,
    workers: await countPollers(client, state.taskQueue, 'workflow'),
    missedRuns: schedule.info.numActionsMissedCatchupWindow,
  };
}

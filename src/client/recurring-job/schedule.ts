/** The Schedules of recurring jobs: create, change, list. */
import { ScheduleOverlapPolicy, type Client } from '@temporalio/client';
import { RECURRING_JOB_WORKFLOW, recurringJobOf, recurringJobScheduleId } from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { ScheduleMissingError } from '../errors.js';
import { checkNames } from '../known-fields.js';
import { countPollers, ensureSchedule, listSchedules, type ScheduleKind, type ScheduleState } from '../schedules.js';
import type { ClientContext } from '../settings.js';
import type { CallOptions } from '../temporal-call.js';
import { definitionOf, specOf, type JobScheduleSettings, type JobScheduleSpec } from './schedule-spec.js';

/** The Schedule of a recurring job as Temporal has it. */
export interface JobSchedule extends JobScheduleSpec, ScheduleState {
  /** Workers that poll its task queue; with 0 a run would wait for ever. Null where Temporal does not tell. */
  workers: number | null;
}

/** What recurring jobs are among Schedules. */
export const JOB_SCHEDULE: ScheduleKind<JobSchedule> = {
  workflowType: RECURRING_JOB_WORKFLOW,
  losingOverlaps: [ScheduleOverlapPolicy.CANCEL_OTHER, ScheduleOverlapPolicy.TERMINATE_OTHER],
  isOurs: (scheduleId) => recurringJobOf(scheduleId) !== null,
  tell: async (client, schedule, state) => ({
    ...specOf(schedule),
    ...state,
    workers: await countPollers(client, state.taskQueue, 'workflow'),
  }),
};

/**
 * Creates the Schedule of a recurring job, or changes only the settings that are given. Without `paused` it stays
 * paused or active. Throws InvalidInputError.
 */
export async function ensureJobSchedule(
  client: Client,
  place: Pick<ClientContext, 'taskQueue' | 'hidePrompts'>,
  settings: JobScheduleSettings,
): Promise<'created' | 'updated'> {
  const { projectId, name, prompt, cron, every, paused } = settings;
  const isWhole = prompt != null && (cron ?? every) != null;
  try {
    return await ensureSchedule(client, {
      ...{ scheduleId: recurringJobScheduleId(projectId, name), isWhole, paused },
      definition: (current) => definitionOf(settings, current, place),
    });
  } catch (error) {
    throw error instanceof ScheduleMissingError && !isWhole ? missingSetting(settings) : ofSetting(settings, error);
  }
}

/** What settings lack to make a new recurring job. */
function missingSetting({ projectId, name, prompt }: JobScheduleSettings): InvalidInputError {
  const field = prompt == null ? 'prompt' : 'cron or every';
  return new InvalidInputError(field, `must be given: project ${projectId} has no recurring job ${name} yet`);
}

/** What Temporal says against a setting, in its own words. */
function ofSetting({ cron }: JobScheduleSettings, error: unknown): unknown {
  // The SDK's error for a spec that the server refuses.
  if (!(error instanceof TypeError)) return error;
  const field = /time ?zone/i.test(error.message) ? 'timeZone' : cron == null ? 'every' : 'cron';
  return new InvalidInputError(field, `is refused by Temporal: ${error.message}`);
}

/** The Schedules of recurring jobs in the namespace, or of one project, by id. */
export async function listJobSchedules(
  client: Client,
  filter: { projectId?: string | null | undefined } = {},
  options: CallOptions = {},
): Promise<JobSchedule[]> {
  checkNames(filter, 'filter', { projectId: true });
  const { projectId } = filter;
  const isOurs = (scheduleId: string) => {
    const job = recurringJobOf(scheduleId);
    return job !== null && (projectId == null || job.projectId === projectId);
  };
  return listSchedules(client, { ...JOB_SCHEDULE, isOurs }, options);
}

/** The Schedules of recurring jobs: create, change, list, pause, resume, trigger, remove. */
import {
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
  type ScheduleUpdateOptions,
} from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { recurringJobLockId, recurringJobOf, recurringJobScheduleId, scheduleRemovedSignal } from '../../contract.js';
import { checkRecurringName } from '../../agent-job/recurring-input.js';
import { asNotRetryable } from '../../contract/errors.js';
import { checkId, InvalidInputError } from '../../contract/input-checks.js';
import {
  changeSchedule,
  countPollers,
  ensureSchedule,
  listSchedules,
  stateAfter,
  stateOf,
  withSchedule,
  type ScheduleState,
} from '../schedules.js';
import type { CallOptions } from '../temporal-call.js';
import { lastRuns, listRuns, type RecurringRunSummary } from './runs.js';
import {
  checkJobSchedule,
  mergedSpec,
  specOf,
  timesIn,
  toScheduleOptions,
  type DescribedSpec,
  type JobScheduleSettings,
} from './schedule-spec.js';

/** The Schedule of a recurring job as Temporal has it. */
export interface JobSchedule extends DescribedSpec, ScheduleState {
  /** Workers that poll its task queue; with 0 a run would wait for ever. Null where Temporal does not tell. */
  workers: number | null;
  /** Times that were so long ago, after an outage of Temporal, that no run was started for them. */
  missedRuns: number;
}

/** One recurring job, by its project and name; making a handle sends no request. */
export class JobScheduleHandle {
  readonly projectId: string;
  readonly name: string;
  readonly scheduleId: string;
  /** Whether the call that answered with it created the Schedule. */
  readonly isNew: boolean;
  readonly #client: Client;

  constructor(client: Client, { projectId, name }: { projectId: string; name: string }, isNew = false) {
    this.#client = client;
    this.isNew = isNew;
    this.projectId = checkId(projectId, 'projectId');
    this.name = checkRecurringName(projectId, name);
    this.scheduleId = recurringJobScheduleId(projectId, name);
  }

  /** Reads the Schedule; throws ScheduleMissingError. */
  describe(options: CallOptions = {}): Promise<JobSchedule> {
    return this.#call(options, async (handle) => toJobSchedule(this.#client, await handle.describe()));
  }

  /**
   * Lists the runs, each with its fate: on most servers those that run first, then the others by their end. `timeoutMs`
   * is for each page. May lag a moment behind.
   */
  runs(options: CallOptions = {}): AsyncIterable<RecurringRunSummary> {
    return listRuns(this.#client, this, options);
  }

  /** The runs that were started last, newest first. */
  lastRuns(limit: number, options: CallOptions = {}): Promise<RecurringRunSummary[]> {
    return lastRuns(this.#client, this, limit, options);
  }

  /**
   * Starts no run until it is resumed. What runs or waits already goes on. Throws ScheduleMissingError, as all below.
   */
  pause(note?: string, options: CallOptions = {}): Promise<void> {
    return this.#call(options, (handle) => handle.pause(note ?? 'paused'));
  }

  /** Starts runs again. */
  resume(note?: string, options: CallOptions = {}): Promise<void> {
    return this.#call(options, (handle) => handle.unpause(note ?? 'resumed'));
  }

  /** Starts a run now, also of a paused Schedule; its scheduled time is now, in whole seconds. */
  async trigger(options: CallOptions = {}): Promise<void> {
    try {
      await this.#call(options, (handle) => handle.trigger(ScheduleOverlapPolicy.ALLOW_ALL));
    } catch (error) {
      // Again, it would start another run where the first was started.
      throw asNotRetryable(error);
    }
  }

  /** Removes the Schedule. Its jobs go on; runs that wait for an earlier job are skipped. */
  async remove(options: CallOptions = {}): Promise<void> {
    await this.#call(options, async (handle) => {
      try {
        await handle.delete();
      } finally {
        // Of a Schedule that is gone already, too: the removal before may have been cut short.
        await this.#dismissWaiting();
      }
    });
  }

  async #dismissWaiting(): Promise<void> {
    try {
      const lock = this.#client.workflow.getHandle(recurringJobLockId(this.projectId, this.name));
      await lock.signal(scheduleRemovedSignal);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }

  #call<T>(options: CallOptions, work: (handle: ScheduleHandle) => Promise<T>): Promise<T> {
    return withSchedule(this.#client, this.scheduleId, work, options);
  }
}

/**
 * Creates the Schedule of a recurring job, or changes only the settings that are given. Without `paused` it stays
 * paused or active. Throws InvalidInputError.
 */
export async function ensureJobSchedule(
  client: Client,
  taskQueue: string,
  settings: JobScheduleSettings,
): Promise<'created' | 'updated'> {
  checkJobSchedule(settings);
  const { projectId, name, prompt, cron, every, paused } = settings;
  const scheduleId = recurringJobScheduleId(projectId, name);
  const change = (current: ScheduleDescription): ScheduleUpdateOptions => ({
    ...toScheduleOptions(mergedSpec(specOf(current), settings), taskQueue, timesIn(current)),
    state: stateAfter(current, paused),
  });
  try {
    if (prompt === undefined || (cron ?? every) === undefined) return await changeSchedule(client, scheduleId, change);
    const fresh = {
      ...toScheduleOptions(mergedSpec(null, settings), taskQueue, {}),
      state: { paused: paused ?? false },
    };
    return await ensureSchedule(client, scheduleId, fresh, change);
  } catch (error) {
    throw toInvalidInput(settings, error);
  }
}

/** What Temporal says against a setting, in its own words; and what a new recurring job lacks. */
function toInvalidInput({ projectId, name, prompt, cron }: JobScheduleSettings, error: unknown): unknown {
  if (error instanceof ScheduleNotFoundError) {
    const field = prompt === undefined ? 'prompt' : 'cron or every';
    return new InvalidInputError(field, `must be given: project ${projectId} has no recurring job ${name} yet`);
  }
  // The SDK's error for a spec that the server refuses.
  if (!(error instanceof TypeError)) return error;
  const field = /time ?zone/i.test(error.message) ? 'timeZone' : cron === undefined ? 'every' : 'cron';
  return new InvalidInputError(field, `is refused by Temporal: ${error.message}`);
}

/** The Schedules of recurring jobs in the namespace, or of one project, by id. */
export function listJobSchedules(
  client: Client,
  { projectId }: { projectId?: string | undefined } = {},
  options: CallOptions = {},
): Promise<JobSchedule[]> {
  const isWanted = (scheduleId: string) => {
    const job = recurringJobOf(scheduleId);
    return job !== null && (projectId === undefined || job.projectId === projectId);
  };
  return listSchedules(client, isWanted, (schedule) => toJobSchedule(client, schedule), options);
}

async function toJobSchedule(client: Client, schedule: ScheduleDescription): Promise<JobSchedule> {
  const state = stateOf(schedule);
  return {
    ...specOf(schedule),
    ...state,
    workers: await countPollers(client, state.taskQueue, 'workflow'),
    missedRuns: schedule.info.numActionsMissedCatchupWindow,
  };
}

/** The handle of a recurring job: describe, list its runs, pause, resume, trigger, remove. */
import { ScheduleOverlapPolicy, type ScheduleHandle } from '@temporalio/client';
import { recurringJobScheduleId } from '../../contract.js';
import { checkRecurringName } from '../../agent-job/recurring-input.js';
import { asNotRetryable } from '../../contract/errors.js';
import { checkId, checkObject } from '../../contract/input-checks.js';
import { limitsOf, type ClientContext } from '../settings.js';
import { readSchedule, setPaused, withSchedule } from '../schedules.js';
import type { CallOptions } from '../temporal-call.js';
import { dismissRuns, isStarting } from './removal.js';
import { lastRuns, listRuns, type RecurringRunSummary } from './runs.js';
import { toJobSchedule, type JobSchedule } from './schedule.js';

/** One recurring job, by its project and name. An interface, so that a plain object can stand in for it in tests. */
export interface JobScheduleHandle {
  readonly projectId: string;
  readonly name: string;
  readonly scheduleId: string;
  /** Whether the call that answered with it created the Schedule. */
  readonly isNew: boolean;

  /** Reads the Schedule; throws ScheduleMissingError. */
  describe(options?: CallOptions): Promise<JobSchedule>;

  /**
   * Lists the runs, each with its fate: on most servers those that run first, then the others by their end. `timeoutMs`
   * is for each page. May lag a moment behind.
   */
  runs(options?: CallOptions): AsyncIterable<RecurringRunSummary>;

  /** The runs that were started last, newest first; `limit` is 0 to 100,000. */
  lastRuns(limit: number, options?: CallOptions): Promise<RecurringRunSummary[]>;

  /**
   * Starts no run until it is resumed. What runs or waits already goes on. Throws ScheduleMissingError, as all below.
   */
  pause(note?: string | null, options?: CallOptions): Promise<void>;

  /** Starts runs again. */
  resume(note?: string | null, options?: CallOptions): Promise<void>;

  /** Starts a run now, also of a paused Schedule; its scheduled time is now, in whole seconds. */
  trigger(options?: CallOptions): Promise<void>;

  /** Removes the Schedule. Its jobs go on; runs that have no job yet are skipped. */
  remove(options?: CallOptions): Promise<void>;
}

/** A handle that asks Temporal; making one sends no request, and throws InvalidInputError. */
export class TemporalJobScheduleHandle implements JobScheduleHandle {
  readonly projectId: string;
  readonly name: string;
  readonly scheduleId: string;
  readonly isNew: boolean;
  readonly #context: ClientContext;

  constructor(context: ClientContext, job: { projectId: string; name: string }, isNew = false) {
    checkObject(job, 'job');
    const { projectId, name } = job;
    this.#context = context;
    this.isNew = isNew;
    this.projectId = checkId(projectId, 'projectId');
    this.name = checkRecurringName(projectId, name);
    this.scheduleId = recurringJobScheduleId(projectId, name);
  }

  describe(options: CallOptions = {}): Promise<JobSchedule> {
    const { client } = this.#context;
    const read = () => readSchedule(client, this.scheduleId, (schedule) => toJobSchedule(client, schedule));
    return this.#call(options, read);
  }

  runs(options: CallOptions = {}): AsyncIterable<RecurringRunSummary> {
    return listRuns(this.#context.client, this, limitsOf(this.#context, options));
  }

  lastRuns(limit: number, options: CallOptions = {}): Promise<RecurringRunSummary[]> {
    return lastRuns(this.#context.client, this, limit, limitsOf(this.#context, options));
  }

  pause(note?: string | null, options: CallOptions = {}): Promise<void> {
    return this.#call(options, (handle) => setPaused(handle, true, note));
  }

  resume(note?: string | null, options: CallOptions = {}): Promise<void> {
    return this.#call(options, (handle) => setPaused(handle, false, note));
  }

  async trigger(options: CallOptions = {}): Promise<void> {
    try {
      await this.#call(options, (handle) => handle.trigger(ScheduleOverlapPolicy.ALLOW_ALL));
    } catch (error) {
      // Again, it would start another run where the first was started.
      throw asNotRetryable(error);
    }
  }

  async remove(options: CallOptions = {}): Promise<void> {
    await this.#call(options, async (handle) => {
      const mayLag = await isStarting(handle);
      try {
        await handle.delete();
      } finally {
        // Of a Schedule that is gone already, too: the removal before may have been cut short.
        await dismissRuns(this.#context.client, this, handle, mayLag);
      }
    });
  }

  #call<T>(options: CallOptions, work: (handle: ScheduleHandle) => Promise<T>): Promise<T> {
    return withSchedule(this.#context.client, this.scheduleId, work, limitsOf(this.#context, options));
  }
}

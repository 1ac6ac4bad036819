/** The handle of a recurring job: what every Schedule's handle can do, and list its runs and trigger one. */
import { randomUUID } from 'node:crypto';
import { recurringJobScheduleId } from '../../contract.js';
import { checkRecurringName } from '../../agent-job/recurring-input.js';
import { asNotRetryable } from '../../contract/errors.js';
import { checkId, checkObject } from '../../contract/input-checks.js';
import { TemporalScheduleHandle, withSchedule, type ScheduleHandle } from '../schedule-handle.js';
import { limitsOf, type ClientContext } from '../settings.js';
import type { CallOptions } from '../temporal-call.js';
import { bareCall } from '../temporal-errors.js';
import { lastRuns, listRuns, type RecurringRunSummary } from './runs.js';
import { JOB_SCHEDULE, type JobSchedule } from './schedule.js';

/** One recurring job, by its project and name. An interface, so that a plain object can stand in for it in tests. */
export interface JobScheduleHandle extends ScheduleHandle<JobSchedule> {
  readonly name: string;
  /** Whether the call that answered with it created the Schedule. */
  readonly isNew: boolean;

  /**
   * Lists the runs, each with its fate: on most servers those that run first, then the others by their end. `timeoutMs`
   * is for each page. May lag a moment behind.
   */
  runs(options?: CallOptions): AsyncIterable<RecurringRunSummary>;

  /** The first of `runs`: as one job runs at a time, the newest; `limit` is 0 to 100,000. */
  lastRuns(limit: number, options?: CallOptions): Promise<RecurringRunSummary[]>;

  /**
   * Has a time come now, also of a paused Schedule, in whole seconds. As any other one it is skipped, or waits, while
   * an earlier run is not over. Throws ScheduleMissingError.
   */
  trigger(options?: CallOptions): Promise<void>;
}

/** A handle that asks Temporal; making one sends no request, and throws InvalidInputError. */
export class TemporalJobScheduleHandle extends TemporalScheduleHandle<JobSchedule> implements JobScheduleHandle {
  readonly name: string;
  readonly isNew: boolean;
  readonly #context: ClientContext;

  constructor(context: ClientContext, job: { projectId: string; name: string }, isNew = false) {
    checkObject(job, 'job');
    const projectId = checkId(job.projectId, 'projectId');
    const name = checkRecurringName(projectId, job.name);
    super(context, JOB_SCHEDULE, { projectId, scheduleId: recurringJobScheduleId(projectId, name) });
    this.#context = context;
    this.name = name;
    this.isNew = isNew;
  }

  runs(options: CallOptions = {}): AsyncIterable<RecurringRunSummary> {
    return listRuns(this.#context.client, this, limitsOf(this.#context, options));
  }

  lastRuns(limit: number, options: CallOptions = {}): Promise<RecurringRunSummary[]> {
    return lastRuns(this.#context.client, this, limit, limitsOf(this.#context, options));
  }

  async trigger(options: CallOptions = {}): Promise<void> {
    const { workflowService, options: ofClient } = this.#context.client;
    const { namespace, identity } = ofClient;
    // Without a policy the Schedule's own counts; the SDK's `trigger` names another one.
    const request = { namespace, identity, scheduleId: this.scheduleId, requestId: randomUUID() };
    const patch = { triggerImmediately: {} };
    try {
      const trigger = () => bareCall(workflowService.patchSchedule({ ...request, patch }));
      await withSchedule(this.#context, this, options, trigger);
    } catch (error) {
      // Again, it would start another run where the first was started.
      throw asNotRetryable(error);
    }
  }
}

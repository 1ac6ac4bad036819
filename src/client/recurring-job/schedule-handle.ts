/** The handle of a recurring job: what every Schedule's handle can do, and list its runs and trigger one. */
import { randomUUID } from 'node:crypto';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { checkRecurringName } from '../../agent-job/recurring-input.js';
import {
  agentJobWorkflowId,
  RECURRING_RUN_MEMO,
  recurringJobKey,
  type RecurringJobRun,
  recurringJobScheduleId,
  type RecurringRunFate,
} from '../../contract.js';
import { asNotRetryable } from '../../contract/errors.js';
import { checkId, checkObject, checkWholeNumber } from '../../contract/input-checks.js';
import { type ScheduleHandle, TemporalScheduleHandle, withSchedule } from '../schedules.js';
import { type ClientContext, limitsOf } from '../settings.js';
import { type CallOptions, listWorkflows } from '../temporal-call.js';
import { bareCall } from '../temporal-errors.js';
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

  async lastRuns(limit: number, options: CallOptions = {}): Promise<RecurringRunSummary[]> {
    const wanted = checkWholeNumber(limit, 'limit', [0, MAX_LIMIT]);
    const runs: RecurringRunSummary[] = [];
    const all = this.runs(options);
    if (wanted > 0) for await (const run of all) if (runs.push(run) === wanted) break;
    return runs;
  }

  async trigger(options: CallOptions = {}): Promise<void> {
    const { scheduleId } = this;
    const { namespace, identity } = this.#context.client.options;
    // Without a policy the Schedule's own counts; the SDK's `trigger` names another one.
    const patch = { triggerImmediately: {} };
    const request = { namespace, identity, scheduleId, requestId: randomUUID(), patch };
    try {
      await withSchedule(this.#context, scheduleId, options, ({ workflowService }) =>
        bareCall(workflowService.patchSchedule(request)),
      );
    } catch (error) {
      // Again, it would start another run where the first was started.
      throw asNotRetryable(error);
    }
  }
}

// The runs of a recurring job as Temporal's visibility lists them, without asking a worker.

/**
 * One run. Beside the fates that the workflow tells: `starting` until a worker takes it; and `failed`, `canceled`,
 * `terminated` or `timedOut` where it was ended in another way.
 */
export interface RecurringRunSummary extends Omit<RecurringJobRun, 'fate'> {
  fate: RecurringRunFate | 'starting' | 'failed' | 'canceled' | 'terminated' | 'timedOut';
  /** Of the run, not of its job. */
  runWorkflowId: string;
  startedAt: string;
  endedAt: string | null;
}

/** The fate of a run that has ended without one of its own. */
const CLOSED: Record<string, RecurringRunSummary['fate']> = {
  FAILED: 'failed',
  CANCELLED: 'canceled',
  TERMINATED: 'terminated',
  TIMED_OUT: 'timedOut',
};
const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);
/** They are held in memory. */
const MAX_LIMIT = 100_000;

/** What the runs of a recurring job are found by. */
interface Of {
  scheduleId: string;
  projectId: string;
  name: string;
}

/**
 * Lists the runs of a Schedule, also of one that is removed while Temporal keeps them. Most servers tell those that run
 * first, then the others by their end.
 */
async function* listRuns(
  client: Client,
  of: Of,
  options: CallOptions,
): AsyncGenerator<RecurringRunSummary, void, undefined> {
  // Of the characters that a query treats, an encoded id has none.
  const query = `TemporalScheduledById = '${of.scheduleId}'`;
  for await (const run of listWorkflows(client, query, options)) yield toSummary(of, run);
}

function toSummary({ projectId, name }: Of, run: WorkflowExecutionInfo): RecurringRunSummary {
  const { fate, outcome = null } = (run.memo?.[RECURRING_RUN_MEMO] ?? {}) as Partial<RecurringJobRun>;
  const scheduledAt = run.typedSearchAttributes.get(SCHEDULED_AT) ?? run.startTime;
  const key = recurringJobKey(name, scheduledAt);
  return {
    projectId,
    name,
    scheduledAt: scheduledAt.toISOString(),
    fate: CLOSED[run.status.name] ?? fate ?? 'starting',
    key,
    workflowId: agentJobWorkflowId(projectId, key),
    outcome,
    runWorkflowId: run.workflowId,
    startedAt: run.startTime.toISOString(),
    endedAt: run.closeTime?.toISOString() ?? null,
  };
}

/** Recurring jobs of the fake client. No time comes by itself: a test triggers the runs. */
import { agentJobWorkflowId, recurringJobKey, recurringJobScheduleId, type RecurringRunFate } from '../../contract.js';
import { checkRecurringName, recurringJobStart } from '../../agent-job/recurring-input.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import { checkId } from '../../contract/input-checks.js';
import { checkRunLimit, type RecurringRunSummary } from '../recurring-job/runs.js';
import { missingSetting, type JobSchedule } from '../recurring-job/schedule.js';
import type { JobScheduleHandle } from '../recurring-job/schedule-handle.js';
import {
  checkJobSchedule,
  mergedSpec,
  type JobScheduleSettings,
  type JobScheduleSpec,
} from '../recurring-job/schedule-spec.js';
import type { ClientContext } from '../settings.js';
import { checkLimits, type CallOptions } from '../temporal-call.js';
import type { FakeJob } from './fake-job.js';
import { FakeScheduleStore, type FakeSchedule } from './fake-schedule-store.js';

/** What all starts of a fake client have in common. */
export type FakePlace = Pick<ClientContext, 'taskQueue' | 'hidePrompts'>;

type Schedule = FakeSchedule<JobScheduleSpec>;

interface Run {
  /** As it is told until its job has ended. */
  told: RecurringRunSummary;
  job: FakeJob | null;
  /** Resolves where it holds up later runs no longer. */
  isOver: Promise<void>;
}

/** Starts a job; null where its key has one already. */
type Start = (options: AgentJobStartOptions) => FakeJob | null;

/** What nobody can tell without a server, and what does not happen. */
const KNOWN = { problem: null, workers: null, missedRuns: 0 };

/** The recurring jobs of a fake client. */
export class FakeSchedules {
  readonly #place: FakePlace;
  readonly #start: Start;
  readonly #schedules: FakeScheduleStore<JobScheduleSpec, typeof KNOWN>;
  /** Of removed Schedules, too. */
  readonly #runs = new Map<string, Run[]>();

  constructor(place: FakePlace, start: Start) {
    this.#place = place;
    this.#start = start;
    this.#schedules = new FakeScheduleStore(place.taskQueue, KNOWN);
  }

  /** Creates or changes one. Throws InvalidInputError. */
  ensure(settings: JobScheduleSettings): JobScheduleHandle {
    checkJobSchedule(settings);
    const { projectId, name, prompt, cron, every, paused } = settings;
    const done = this.#schedules.ensure(recurringJobScheduleId(projectId, name), paused, (there) => {
      if (!there && (prompt == null || (cron ?? every) == null)) throw missingSetting(settings);
      return mergedSpec(there, settings);
    });
    return this.handle(settings, done === 'created');
  }

  /** All, or those of one project, by id. */
  list(projectId: string | null | undefined): JobSchedule[] {
    return this.#schedules.list().filter((schedule) => (projectId ?? schedule.projectId) === schedule.projectId);
  }

  /** Throws InvalidInputError. */
  handle(job: { projectId: string; name: string }, isNew = false): JobScheduleHandle {
    const projectId = checkId(job.projectId, 'projectId');
    const name = checkRecurringName(projectId, job.name);
    const scheduleId = recurringJobScheduleId(projectId, name);
    const runs = async (options?: CallOptions) => {
      checkLimits(options);
      return (this.#runs.get(scheduleId) ?? []).map(summaryOf).toReversed();
    };
    return {
      ...{ projectId, name, isNew },
      ...this.#schedules.handle(scheduleId),
      runs: async function* (options) {
        yield* await runs(options);
      },
      lastRuns: async (limit, options) => (await runs(options)).slice(0, checkRunLimit(limit)),
      trigger: (options) => this.#schedules.work(scheduleId, options, (schedule) => this.#trigger(schedule)),
    };
  }

  #trigger(schedule: Schedule): void {
    const { scheduleId, spec } = schedule;
    const at = new Date(new Date().setMilliseconds(0));
    const runs = this.#runs.get(scheduleId) ?? [];
    const run: Run = { told: newRun(scheduleId, spec, at), job: null, isOver: Promise.resolve() };
    this.#runs.set(scheduleId, [...runs, run]);
    const start = async (): Promise<void> => {
      if (schedule.isRemoved) return end(run, 'skipped', 'scheduleRemoved');
      run.job = this.#start(recurringJobStart(spec, at, this.#place));
      if (!run.job) return end(run, 'exists');
      run.told.fate = 'running';
      await run.job.ended().catch(() => {});
    };
    const earlier = runs.findLast((one) => summaryOf(one).closedAt === null);
    if (!earlier) run.isOver = start();
    else if (spec.overlap === 'skip') end(run, 'skipped', 'earlierRun');
    else run.isOver = earlier.isOver.then(start);
  }
}

function newRun(scheduleId: string, { projectId, name }: JobScheduleSpec, at: Date): RecurringRunSummary {
  const key = recurringJobKey(name, at);
  return {
    ...{ projectId, name, key, fate: 'queued', outcome: null, reason: null, closedAt: null },
    workflowId: agentJobWorkflowId(projectId, key),
    runWorkflowId: `${scheduleId}${key.slice(name.length)}`,
    scheduledAt: at.toISOString(),
    startedAt: new Date().toISOString(),
  };
}

function end({ told }: Run, fate: RecurringRunFate, reason: RecurringRunSummary['reason'] = null): void {
  Object.assign(told, { fate, reason, closedAt: new Date().toISOString() });
}

function summaryOf(run: Run): RecurringRunSummary {
  const { told, job } = run;
  if (told.closedAt === null && job?.hasEnded) {
    const { outcome, closedAt } = job.summary;
    Object.assign(told, { fate: 'ended', outcome, closedAt });
  }
  return { ...told };
}

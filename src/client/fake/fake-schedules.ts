/** Recurring jobs of the fake client. No time comes by itself: a test triggers the runs. */
import {
  agentJobWorkflowId,
  DEFAULT_TASK_QUEUE,
  recurringJobKey,
  recurringJobScheduleId,
  type RecurringRunFate,
} from '../../contract.js';
import { checkRecurringName, recurringJobStart } from '../../agent-job/recurring-input.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import { checkId } from '../../contract/input-checks.js';
import { ScheduleMissingError } from '../errors.js';
import type { RecurringRunSummary } from '../recurring-job/runs.js';
import { missingSetting, type JobSchedule } from '../recurring-job/schedule.js';
import type { JobScheduleHandle } from '../recurring-job/schedule-handle.js';
import {
  checkJobSchedule,
  mergedSpec,
  type JobScheduleSettings,
  type JobScheduleSpec,
} from '../recurring-job/schedule-spec.js';
import { checkLimits, type CallOptions } from '../temporal-call.js';
import type { FakeJob } from './fake-job.js';

interface Schedule {
  readonly scheduleId: string;
  spec: JobScheduleSpec;
  paused: boolean;
  note: string | null;
  isRemoved: boolean;
}

interface Run {
  /** As it is told until its job has ended. */
  told: RecurringRunSummary;
  job: FakeJob | null;
  /** Resolves where it holds up later runs no longer. */
  isOver: Promise<void>;
}

/** Starts a job; null where its key has one already. */
type Start = (options: AgentJobStartOptions) => FakeJob | null;

/** The recurring jobs of a fake client. */
export class FakeSchedules {
  readonly #start: Start;
  readonly #schedules = new Map<string, Schedule>();
  /** Of removed Schedules, too. */
  readonly #runs = new Map<string, Run[]>();

  constructor(start: Start) {
    this.#start = start;
  }

  /** Creates or changes one. Throws InvalidInputError. */
  ensure(settings: JobScheduleSettings): JobScheduleHandle {
    checkJobSchedule(settings);
    const { projectId, name, prompt, cron, every, paused } = settings;
    const scheduleId = recurringJobScheduleId(projectId, name);
    const there = this.#schedules.get(scheduleId);
    if (!there && (prompt == null || (cron ?? every) == null)) throw missingSetting(settings);
    const spec = mergedSpec(there?.spec ?? null, settings);
    const schedule = there ?? { scheduleId, spec, paused: false, note: null, isRemoved: false };
    this.#schedules.set(scheduleId, Object.assign(schedule, { spec, paused: paused ?? schedule.paused }));
    return this.handle(settings, !there);
  }

  /** All, or those of one project, by id. */
  list(projectId: string | null | undefined): JobSchedule[] {
    const schedules = [...this.#schedules.values()].filter(
      ({ spec }) => (projectId ?? spec.projectId) === spec.projectId,
    );
    return schedules.map(describe).toSorted((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  }

  /** Throws InvalidInputError. */
  handle(job: { projectId: string; name: string }, isNew = false): JobScheduleHandle {
    const projectId = checkId(job.projectId, 'projectId');
    const name = checkRecurringName(projectId, job.name);
    const scheduleId = recurringJobScheduleId(projectId, name);
    const work = async <T>(options: CallOptions | undefined, change: (schedule: Schedule) => T): Promise<T> => {
      checkLimits(options);
      const schedule = this.#schedules.get(scheduleId);
      if (!schedule) throw new ScheduleMissingError(scheduleId);
      return change(schedule);
    };
    const setPaused = (paused: boolean, note: string, options?: CallOptions) =>
      work(options, (schedule) => void Object.assign(schedule, { paused, note }));
    const runs = async (options?: CallOptions) => {
      checkLimits(options);
      return (this.#runs.get(scheduleId) ?? []).map(summaryOf).toReversed();
    };
    return {
      ...{ projectId, name, scheduleId, isNew },
      describe: (options) => work(options, describe),
      runs: async function* (options) {
        yield* await runs(options);
      },
      lastRuns: async (limit, options) => (await runs(options)).slice(0, limit),
      pause: (note, options) => setPaused(true, note ?? 'paused', options),
      resume: (note, options) => setPaused(false, note ?? 'resumed', options),
      trigger: (options) => work(options, (schedule) => this.#trigger(schedule)),
      remove: (options) =>
        work(options, (schedule) => {
          schedule.isRemoved = true;
          this.#schedules.delete(scheduleId);
        }),
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
      run.job = this.#start(recurringJobStart(spec, at, { taskQueue: DEFAULT_TASK_QUEUE }));
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

function describe({ scheduleId, spec, paused, note }: Schedule): JobSchedule {
  const none = { problem: null, nextRunAt: null, workers: null, missedRuns: 0 };
  return { ...spec, ...none, scheduleId, paused, note, taskQueue: DEFAULT_TASK_QUEUE };
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

/** What the Schedule of a job says: checked, merged with what it said before, and as Temporal takes it. */
import {
  ScheduleOverlapPolicy,
  type ScheduleDescription,
  type ScheduleOptions,
  type ScheduleSpec,
} from '@temporalio/client';
import {
  RECURRING_JOB_WORKFLOW,
  recurringJobScheduleId,
  type AgentJobOptions,
  type DurationInput,
  type OverlapPolicy,
  type RecurringJobInput,
} from '../../contract.js';
import { HIDE_PROMPTS_MEMO } from '../../contract/recurring-job.js';
import type { ClientContext } from '../settings.js';
import { checkDuration, checkObject, checkString, InvalidInputError } from '../../contract/input-checks.js';
import { parseRecurringJob, projectAttributes, type RecurringJobSpec } from '../../agent-job/recurring-input.js';
import { jobSummary, staticDetails } from '../../agent-job/title.js';

/**
 * Settings of a recurring job; what is left out stays as it is, and takes its default in a new one. So does null, but
 * of the job's options, which take their default again.
 */
export interface JobScheduleSettings extends AgentJobOptions {
  projectId: string;
  /** Unique in the project, among recurring jobs; 1 to 100 bytes when percent-encoded. */
  name: string;
  /**
   * The instruction, with `{date}`, `{time}`, `{timeZone}` and `{scheduledAt}` for the scheduled time. `{{` and `}}`
   * stand for a brace.
   */
  prompt?: string | null | undefined;
  /** When, as a cron expression of 5 or 6 fields, local to the time zone; or give `every`. */
  cron?: string | null | undefined;
  /** When, as an interval of at least a minute, counted from 1970-01-01 00:00 UTC; or give `cron`. */
  every?: DurationInput | null | undefined;
  /** IANA name: the clock of `cron`, `{date}` and `{time}`. Default UTC. */
  timeZone?: string | null | undefined;
  /** Each job starts up to so much later; default 0. */
  jitter?: DurationInput | null | undefined;
  /** What a run does while the job of an earlier run is not over; default `skip`. */
  overlap?: OverlapPolicy | null | undefined;
  /** With `queue`: how long a run waits before it is skipped; 0 to 7 days, default 24 hours. */
  queueFor?: DurationInput | null | undefined;
  /** How long ago a time may be that Temporal missed and makes up for; 10 seconds to a year, default 1 day. */
  catchUp?: DurationInput | null | undefined;
  paused?: boolean | null | undefined;
}

/** Complete settings of a recurring job. */
export interface JobScheduleSpec extends RecurringJobSpec {
  /** Null where an interval tells when, or times that only Temporal's own tools can set. */
  cron: string | null;
  everyMs: number | null;
  jitterMs: number;
  catchUpMs: number;
}

export const DEFAULT = { timeZone: 'UTC', jitterMs: 0, catchUpMs: 24 * 3_600_000 } as const;
/** More often makes no sense where a project has 100 creates an hour, and the lock counts in seconds. */
const MIN_EVERY_MS = 60_000;
/** Temporal's limit of the comment that keeps it. */
const MAX_CRON_CHARACTERS = 200;
/** Temporal's own least. */
const MIN_CATCH_UP_MS = 10_000;
const MAX_CATCH_UP_MS = 365 * 24 * 3_600_000;

/** Throws InvalidInputError where a setting is wrong by itself, before anything is sent to Temporal. */
export function checkJobSchedule(settings: JobScheduleSettings): void {
  checkObject(settings, 'settings');
  mergedSpec(null, { ...settings, prompt: settings.prompt ?? 'in place of the one that stays' });
}

/** The spec with the settings that are given; throws InvalidInputError. */
export function mergedSpec(base: JobScheduleSpec | null, settings: JobScheduleSettings): JobScheduleSpec {
  const {
    projectId,
    name,
    prompt,
    cron,
    every,
    timeZone,
    jitter,
    overlap,
    queueFor,
    catchUp,
    paused: _,
    ...options
  } = settings;
  if (cron != null && every != null) {
    throw new InvalidInputError('cron and every', 'must not be given together');
  }
  const input = parseRecurringJob({
    projectId,
    name,
    prompt: prompt ?? base?.prompt,
    timeZone: timeZone ?? base?.timeZone ?? DEFAULT.timeZone,
    overlap: overlap ?? base?.overlap,
    queueFor: queueFor ?? base?.queueForMs,
    options: withoutAbsent({ ...base?.options, ...withoutUndefined(options) }),
  });
  const keepsTimes = cron == null && every == null;
  return {
    ...input,
    cron: keepsTimes ? (base?.cron ?? null) : cron == null ? null : checkCron(cron),
    everyMs: keepsTimes ? (base?.everyMs ?? null) : every == null ? null : checkEvery(every),
    jitterMs: jitter == null ? (base?.jitterMs ?? DEFAULT.jitterMs) : checkDuration(jitter, 'jitter'),
    catchUpMs: catchUp == null ? (base?.catchUpMs ?? DEFAULT.catchUpMs) : checkCatchUp(catchUp),
  };
}

function withoutUndefined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

/** An option that is null takes its default again. */
function withoutAbsent(options: AgentJobOptions): AgentJobOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null));
}

/** The server checks the rest of an expression. */
function checkCron(value: unknown): string {
  const cron = checkString(value, 'cron').trim().replace(/\s+/g, ' ');
  if (!looksLikeCron(cron)) {
    const shouldBe = 'must be a cron expression: minute, hour, day of the month, month, day of the week';
    throw new InvalidInputError('cron', `${shouldBe}, and a year if you like; the time zone is a setting of its own`);
  }
  if (cron.length > MAX_CRON_CHARACTERS) {
    throw new InvalidInputError('cron', `must have at most ${MAX_CRON_CHARACTERS} characters; it has ${cron.length}`);
  }
  return cron;
}

export function looksLikeCron(text: string): boolean {
  const isNamed = /^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$/.test(text);
  const fields = text.split(' ').length;
  return isNamed || (!/[#=]/.test(text) && (fields === 5 || fields === 6));
}

function checkEvery(value: unknown): number {
  const millis = checkDuration(value, 'every');
  if (millis < MIN_EVERY_MS || millis % 1_000 !== 0) {
    throw new InvalidInputError('every', 'must be at least 1 minute, in whole seconds');
  }
  return millis;
}

function checkCatchUp(value: unknown): number {
  const millis = checkDuration(value, 'catchUp');
  if (millis < MIN_CATCH_UP_MS || millis > MAX_CATCH_UP_MS) {
    throw new InvalidInputError('catchUp', 'must be 10 seconds to 365 days');
  }
  return millis;
}

type JobScheduleOptions = Omit<ScheduleOptions, 'scheduleId' | 'state'>;

/** The spec as Temporal's schedule options; `times` is from `timesFor`. */
export function toScheduleOptions(
  spec: JobScheduleSpec,
  { taskQueue, hidePrompts }: Pick<ClientContext, 'taskQueue' | 'hidePrompts'>,
  times: ScheduleSpec,
): JobScheduleOptions {
  const { projectId, name, prompt, timeZone, overlap, queueForMs, options } = spec;
  const scheduleId = recurringJobScheduleId(projectId, name);
  const input: RecurringJobInput = { projectId, name, prompt, timeZone, overlap, queueFor: queueForMs, options };
  return {
    spec: { ...times, jitter: spec.jitterMs },
    typedSearchAttributes: projectAttributes(projectId),
    action: {
      type: 'startWorkflow',
      workflowType: RECURRING_JOB_WORKFLOW,
      workflowId: scheduleId,
      taskQueue,
      args: [input],
      typedSearchAttributes: projectAttributes(projectId),
      staticSummary: jobSummary({ projectId, prompt: name }),
      staticDetails: staticDetails({ projectId, prompt: hidePrompts ? null : prompt }),
      ...(hidePrompts && { memo: { [HIDE_PROMPTS_MEMO]: true } }),
    },
    policies: {
      // The workflow decides about overlaps, so that each run that is skipped is there to be seen, with its reason.
      overlap: ScheduleOverlapPolicy.ALLOW_ALL,
      catchupWindow: spec.catchUpMs,
      pauseOnFailure: false,
    },
  };
}

/** Temporal forgets a cron expression, but keeps its comment: that is the expression once more. */
function timesOf({ cron, everyMs }: JobScheduleSpec): ScheduleSpec {
  if (cron !== null) return { calendars: [], intervals: [], cronExpressions: [`${cron} # ${cron}`] };
  if (everyMs !== null) return { calendars: [], intervals: [{ every: everyMs }] };
  return {};
}

/** When runs start: as the settings say, else as it is in the Schedule that is changed, whatever tool set it there. */
export function timesFor(
  spec: JobScheduleSpec,
  { cron, every, timeZone }: JobScheduleSettings,
  current: ScheduleDescription | null,
): ScheduleSpec {
  const { jitter: _, ...there } = current?.spec ?? {};
  const areNew = cron != null || every != null;
  const isZoneNew = areNew || timeZone != null;
  return { ...there, ...(areNew && timesOf(spec)), ...(isZoneNew && { timezone: spec.timeZone }) };
}

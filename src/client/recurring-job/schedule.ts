/** The Schedules of recurring jobs: create, change, list. */
import {
  type Client,
  type ScheduleDescription,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
  type ScheduleSpec,
} from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import { NEW_JOB_OPTIONS } from '../../agent-job/fields.js';
import { parseRecurringJob, type RecurringJobSpec } from '../../agent-job/recurring-input.js';
import { jobSummary, staticDetails } from '../../agent-job/title.js';
import {
  type AgentJobOptions,
  type DurationInput,
  RECURRING_JOB_WORKFLOW,
  type RecurringJobInput,
  recurringJobOf,
  recurringJobScheduleId,
  SEARCH_ATTRIBUTE,
} from '../../contract.js';
import { checkDuration, checkObject, checkString, InvalidInputError } from '../../contract/input-checks.js';
import { oneOf, schemaOf, TEXT } from '../../contract/kinds.js';
import { DAY_MS, HIDE_PROMPTS_MEMO } from '../../contract/shared.js';
import { ScheduleMissingError } from '../errors.js';
import { checkKnownFields, checkNames, type InputOptions } from '../known-fields.js';
import { countPollers } from '../pollers.js';
import { ensureSchedule, inputIn, listSchedules, type ScheduleKind, type ScheduleState } from '../schedules.js';
import type { ClientContext } from '../settings.js';
import type { CallOptions } from '../temporal-call.js';

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

// What the Schedule of a job says: checked, merged with what it said before, and as Temporal takes it.

/** What becomes of a time while the job of an earlier one is not over: it is skipped, or the first of them waits. */
export type OverlapPolicy = 'skip' | 'queue';

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
  /** While the job of an earlier time is not over; default `skip`. With `queue` one time waits, others are skipped. */
  overlap?: OverlapPolicy | null | undefined;
  /** How long ago a time may be that Temporal missed and makes up for; 10 seconds to a year, default 1 day. */
  catchUp?: DurationInput | null | undefined;
  paused?: boolean | null | undefined;
}

/** Complete settings of a recurring job. */
interface JobScheduleSpec extends RecurringJobSpec {
  /** Null where an interval tells when, or times that only Temporal's own tools can set. */
  cron: string | null;
  everyMs: number | null;
  jitterMs: number;
  /** Null where another tool has set another policy. */
  overlap: OverlapPolicy | null;
  catchUpMs: number;
}

const DEFAULT = { timeZone: 'UTC', jitterMs: 0, catchUpMs: DAY_MS } as const;
const OVERLAP = { skip: ScheduleOverlapPolicy.SKIP, queue: ScheduleOverlapPolicy.BUFFER_ONE } as const;
const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
/** More often makes no sense where a project has 100 creates an hour. */
const MIN_EVERY_MS = 60_000;
/** Temporal's limit of the comment that keeps it. */
const MAX_CRON_CHARACTERS = 200;
/** Temporal's own least. */
const MIN_CATCH_UP_MS = 10_000;
const MAX_CATCH_UP_MS = 365 * DAY_MS;

/** The settings by name; what each may be is checked where it is read. */
const SETTINGS = schemaOf({
  ...{ projectId: TEXT, name: TEXT, prompt: TEXT, cron: TEXT, every: TEXT, timeZone: TEXT },
  ...{ jitter: TEXT, overlap: TEXT, catchUp: TEXT, paused: TEXT },
  ...NEW_JOB_OPTIONS,
} satisfies { [Name in keyof JobScheduleSettings]-?: unknown });

/** Throws InvalidInputError where a setting is wrong by itself or unknown, before anything is sent to Temporal. */
export function checkJobSchedule(settings: JobScheduleSettings, options: InputOptions | null = {}): void {
  checkKnownFields(checkObject(settings, 'settings'), SETTINGS, options);
  mergedSpec(null, { ...settings, prompt: settings.prompt ?? 'in place of the one that stays' });
}

/** The spec with the settings that are given; throws InvalidInputError. */
function mergedSpec(base: JobScheduleSpec | null, settings: JobScheduleSettings): JobScheduleSpec {
  const { projectId, name, prompt, cron, every, timeZone, jitter, overlap, catchUp, paused: _, ...options } = settings;
  if (cron != null && every != null) {
    throw new InvalidInputError('cron and every', 'must not be given together');
  }
  const input = parseRecurringJob({
    projectId,
    name,
    prompt: prompt ?? base?.prompt,
    timeZone: timeZone ?? base?.timeZone ?? DEFAULT.timeZone,
    options: withoutAbsent({ ...base?.options, ...withoutUndefined(options) }),
  });
  const keepsTimes = cron == null && every == null;
  return {
    ...input,
    cron: keepsTimes ? (base?.cron ?? null) : cron == null ? null : checkCron(cron),
    everyMs: keepsTimes ? (base?.everyMs ?? null) : every == null ? null : checkEvery(every),
    overlap: overlap == null ? (base ? base.overlap : 'skip') : checkOverlap(overlap, 'overlap'),
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

const { check: checkOverlap } = oneOf('skip', 'queue');

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

function looksLikeCron(text: string): boolean {
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

/** The Schedule as it is to be, after what is there: what the settings don't say stays, whatever tool set it. */
function definitionOf(
  settings: JobScheduleSettings,
  current: ScheduleDescription | null,
  { taskQueue, hidePrompts }: Pick<ClientContext, 'taskQueue' | 'hidePrompts'>,
): Pick<ScheduleOptions, 'spec' | 'action' | 'policies' | 'typedSearchAttributes'> {
  const spec = mergedSpec(current && specOf(current), settings);
  const { projectId, name, prompt, timeZone, options } = spec;
  const input: RecurringJobInput = { projectId, name, prompt, timeZone, options };
  // A prompt that one client hides stays hidden when another one changes the Schedule.
  const isHidden = hidePrompts || current?.action.memo?.[HIDE_PROMPTS_MEMO] === true;
  const ofProject = new TypedSearchAttributes([{ key: PROJECT, value: projectId }]);
  return {
    spec: { ...timesFor(spec, settings, current), jitter: spec.jitterMs },
    action: {
      ...current?.action,
      type: 'startWorkflow',
      workflowType: RECURRING_JOB_WORKFLOW,
      workflowId: recurringJobScheduleId(projectId, name),
      taskQueue,
      args: [{ ...inputIn<RecurringJobInput>(current), ...input }],
      typedSearchAttributes: ofProject,
      staticSummary: jobSummary({ projectId, prompt: name }),
      staticDetails: staticDetails({ projectId, prompt: isHidden ? null : prompt }),
      memo: { ...current?.action.memo, ...(isHidden && { [HIDE_PROMPTS_MEMO]: true }) },
    },
    policies: {
      pauseOnFailure: false,
      ...current?.policies,
      ...(spec.overlap && { overlap: OVERLAP[spec.overlap] }),
      catchupWindow: spec.catchUpMs,
    },
    ...(current === null && { typedSearchAttributes: ofProject }),
  };
}

/** When runs start: as the settings say, else as it is in the Schedule that is changed. */
function timesFor(
  spec: JobScheduleSpec,
  { cron, every, timeZone }: JobScheduleSettings,
  current: ScheduleDescription | null,
): ScheduleSpec {
  const areNew = cron != null || every != null;
  const isZoneNew = areNew || timeZone != null;
  return { ...current?.spec, ...(areNew && timesOf(spec)), ...(isZoneNew && { timezone: spec.timeZone }) };
}

/** Temporal forgets a cron expression, but keeps its comment: that is the expression once more. */
function timesOf({ cron, everyMs }: JobScheduleSpec): ScheduleSpec {
  if (cron !== null) return { calendars: [], intervals: [], cronExpressions: [`${cron} # ${cron}`] };
  return { calendars: [], intervals: [{ every: everyMs ?? 0 }] };
}

/** The spec of a Schedule that Temporal describes, whatever another client has written there. */
function specOf(schedule: ScheduleDescription): JobScheduleSpec & { problem: string | null } {
  const { spec, policies } = schedule;
  const calendars = spec.calendars ?? [];
  const intervals = spec.intervals ?? [];
  const isOurs = calendars.length + intervals.length === 1;
  const comment = calendars[0]?.comment ?? '';
  return {
    ...describedInput(schedule),
    cron: isOurs && looksLikeCron(comment) ? comment : null,
    everyMs: (isOurs && intervals[0] && !intervals[0].offset && Number(intervals[0].every)) || null,
    jitterMs: spec.jitter ?? 0,
    overlap: (['skip', 'queue'] as const).find((policy) => OVERLAP[policy] === policies.overlap) ?? null,
    catchUpMs: policies.catchupWindow,
  };
}

/** What is right in an input that makes no job is told, too: whoever mends the rest keeps it. */
function describedInput(schedule: ScheduleDescription): RecurringJobSpec & { problem: string | null } {
  const input = inputIn<RecurringJobInput>(schedule);
  try {
    return { ...parseRecurringJob(input), problem: null };
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const { projectId = '', name = '' } = recurringJobOf(schedule.scheduleId) ?? {};
    const { prompt, timeZone, options } = input;
    return {
      ...{ projectId, name, prompt: textOf(prompt), timeZone: textOf(timeZone) || DEFAULT.timeZone },
      options: typeof options === 'object' && options !== null ? options : {},
      problem: error.message,
    };
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

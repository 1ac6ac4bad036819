/** What a Schedule of nightly exports says: checked, merged with what it said before, and as Temporal takes it. */
import { isDeepStrictEqual } from 'node:util';
import {
  ScheduleOverlapPolicy,
  type ScheduleDescription,
  type ScheduleOptions,
  type ScheduleSpec,
} from '@temporalio/client';
import {
  visitorExportScheduleId,
  VISITOR_EXPORT_WORKFLOW,
  type DurationInput,
  type ScheduledExportInput,
} from '../../contract.js';
import { parseExportInput } from '../../visitor-export/input.js';
import { checkDuration, checkObject, checkWholeNumber, InvalidInputError } from '../../contract/input-checks.js';
import { checkNames, type Names } from '../known-fields.js';

/** Settings of a Schedule; what is left out stays as it is, and takes its default in a new Schedule. */
export interface ExportScheduleSettings {
  projectId: string;
  /** IANA name: the calendar of the days that are exported, and of the hour. Default UTC. */
  timeZone?: string | null | undefined;
  /** Local time of day; default 4:30, which every day has exactly once, whatever its time zone. */
  hour?: number | null | undefined;
  minute?: number | null | undefined;
  /** How many days each scheduled run exports anew, so that late data count; default 3. */
  days?: number | null | undefined;
  /** Each scheduled run starts up to so much later; default 10 minutes. */
  jitter?: DurationInput | null | undefined;
  paused?: boolean | null | undefined;
}

const SETTINGS: Names<ExportScheduleSettings> = {
  ...{ projectId: true, timeZone: true, hour: true, minute: true, days: true, jitter: true, paused: true },
};

/** Complete settings of a Schedule. */
export interface ExportScheduleSpec {
  projectId: string;
  timeZone: string;
  /** Null, as the minute, where other tools have set times that are not one of every day. */
  hour: number | null;
  minute: number | null;
  days: number;
  jitterMs: number;
}

/** What Temporal makes of a calendar in which the hour and the minute alone are given. */
const EVERY_DAY = {
  second: [only(0)],
  dayOfMonth: [{ start: 1, end: 31, step: 1 }],
  month: [{ start: 'JANUARY', end: 'DECEMBER', step: 1 }],
  year: [],
  dayOfWeek: [{ start: 'SUNDAY', end: 'SATURDAY', step: 1 }],
  comment: '',
};

type ProjectlessSpec = Omit<ExportScheduleSpec, 'projectId'>;

/** No time zone changes its clock as late as 4:30. */
const DEFAULT_SPEC = { timeZone: 'UTC', hour: 4, minute: 30, days: 3, jitterMs: 10 * 60_000 } as const;
/** How long an outage of Temporal may last before the runs that it swallowed are dropped. */
const CATCHUP_WINDOW = '7 days';

/** Throws InvalidInputError where a setting is wrong by itself, before anything is sent to Temporal. */
export function checkExportSchedule(settings: ExportScheduleSettings): void {
  mergedSpec(DEFAULT_SPEC, settings);
}

/** The spec with the settings that are given; throws InvalidInputError. */
function mergedSpec(base: ProjectlessSpec, settings: ExportScheduleSettings): ExportScheduleSpec {
  checkNames<object>(checkObject(settings, 'settings'), 'setting', SETTINGS);
  const { hour, minute, jitter } = settings;
  const isTimeGiven = hour != null || minute != null;
  const { projectId, timeZone, days } = checkedInput({
    projectId: settings.projectId,
    timeZone: settings.timeZone ?? base.timeZone,
    days: settings.days ?? base.days,
  });
  return {
    projectId,
    timeZone,
    days,
    hour: isTimeGiven ? checkWholeNumber(hour ?? base.hour ?? DEFAULT_SPEC.hour, 'hour', [0, 23]) : base.hour,
    minute: isTimeGiven
      ? checkWholeNumber(minute ?? base.minute ?? DEFAULT_SPEC.minute, 'minute', [0, 59])
      : base.minute,
    jitterMs: jitter == null ? base.jitterMs : checkDuration(jitter, 'jitter'),
  };
}

function checkedInput(input: unknown): { projectId: string; timeZone: string; days: number } {
  const spec = parseExportInput(input);
  if (spec.kind !== 'scheduled') throw new InvalidInputError('timeZone', 'must be given');
  return spec;
}

/** The Schedule as it is to be, after what is there: what the settings don't say stays, whatever tool set it. */
export function definitionOf(
  settings: ExportScheduleSettings,
  current: ScheduleDescription | null,
  taskQueue: string,
): Pick<ScheduleOptions, 'spec' | 'action' | 'policies'> {
  const { projectId, ...spec } = mergedSpec(current ? specOf(current) : DEFAULT_SPEC, settings);
  const { timeZone, days } = spec;
  return {
    spec: { ...timesFor(spec, settings, current), jitter: spec.jitterMs },
    action: {
      ...current?.action,
      type: 'startWorkflow',
      workflowType: VISITOR_EXPORT_WORKFLOW,
      workflowId: visitorExportScheduleId(projectId),
      taskQueue,
      args: [{ ...inputIn(current), projectId, timeZone, days }],
      staticSummary: `Visitors of the last ${days} ${days === 1 ? 'day' : 'days'}`,
    },
    policies: current?.policies ?? {
      // A run may take longer than a day where requests are few. The next one then follows it, and later ones are
      // skipped.
      overlap: ScheduleOverlapPolicy.BUFFER_ONE,
      catchupWindow: CATCHUP_WINDOW,
      pauseOnFailure: false,
    },
  };
}

/** When runs start: as the settings say, else as it is in the Schedule that is changed. */
function timesFor(
  { hour, minute, timeZone: timezone }: ProjectlessSpec,
  settings: ExportScheduleSettings,
  current: ScheduleDescription | null,
): ScheduleSpec {
  const areNew = current === null || settings.hour != null || settings.minute != null;
  const isZoneNew = areNew || settings.timeZone != null;
  return {
    ...current?.spec,
    ...(areNew && { calendars: [{ hour: hour ?? 0, minute: minute ?? 0 }], intervals: [] }),
    ...(isZoneNew && { timezone }),
  };
}

/** The spec of a Schedule that Temporal describes; `problem` is why its input makes no export. */
export function specOf(schedule: ScheduleDescription): ProjectlessSpec & { problem: string | null } {
  const { spec } = schedule;
  const input = inputIn(schedule);
  return {
    timeZone: input.timeZone ?? spec.timezone ?? DEFAULT_SPEC.timeZone,
    ...timeOfEveryDay(spec),
    days: input.days ?? 1,
    jitterMs: spec.jitter ?? 0,
    problem: inputProblem(input),
  };
}

/** Nulls where it is not one time of every day, as a Schedule of ours has it. */
function timeOfEveryDay(spec: ScheduleDescription['spec']): Pick<ProjectlessSpec, 'hour' | 'minute'> {
  const { calendars = [], intervals = [], skip = [] } = spec;
  const [hour, minute] = [calendars[0]?.hour[0]?.start ?? null, calendars[0]?.minute[0]?.start ?? null];
  const ours = { ...EVERY_DAY, hour: [only(hour)], minute: [only(minute)] };
  const isOurs = isDeepStrictEqual([...calendars, ...intervals, ...skip], [ours]);
  return isOurs ? { hour, minute } : { hour: null, minute: null };
}

function only<Value>(value: Value) {
  return { start: value, end: value, step: 1 };
}

function inputProblem(input: Partial<ScheduledExportInput>): string | null {
  try {
    checkedInput(input);
    return null;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return error.message;
  }
}

/** The input of the runs, as it stands there. */
function inputIn(schedule: ScheduleDescription | null): Partial<ScheduledExportInput> {
  const input: unknown = schedule?.action.args?.[0];
  return typeof input === 'object' && input !== null ? input : {};
}

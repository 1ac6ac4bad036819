/** The Schedules of nightly exports: create, change, list, and the handle of one. */
import { isDeepStrictEqual } from 'node:util';
import {
  type Client,
  type ScheduleDescription,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
  type ScheduleSpec,
} from '@temporalio/client';
import {
  type DurationInput,
  exportTaskQueue,
  type ScheduledExportInput,
  scheduledProject,
  VISITOR_EXPORT_WORKFLOW,
  visitorExportScheduleId,
} from '../../contract.js';
import {
  checkDuration,
  checkId,
  checkObject,
  checkWholeNumber,
  InvalidInputError,
} from '../../contract/input-checks.js';
import { parseExportInput } from '../../visitor-export/input.js';
import { checkNames, type Names } from '../known-fields.js';
import { countPollers } from '../pollers.js';
import {
  ensureSchedule,
  inputIn,
  listSchedules,
  type ScheduleHandle,
  type ScheduleKind,
  type ScheduleState,
  TemporalScheduleHandle,
} from '../schedules.js';
import type { ClientContext } from '../settings.js';
import type { CallOptions } from '../temporal-call.js';

/** A Schedule of nightly exports as Temporal has it. */
export interface ExportSchedule extends ExportScheduleSpec, ScheduleState {
  /**
   * Workers that poll for exports of that task queue; with 0 a run would wait for ever. Null where Temporal does not
   * tell.
   */
  workers: number | null;
}

/** The Schedule of a project's nightly exports. */
export type ExportScheduleHandle = ScheduleHandle<ExportSchedule>;

const ID_START = visitorExportScheduleId('');

const EXPORT_SCHEDULE: ScheduleKind<ExportSchedule> = {
  workflowType: VISITOR_EXPORT_WORKFLOW,
  // A date range is written by one workflow at a time, so runs may begin beside each other.
  losingOverlaps: [
    ScheduleOverlapPolicy.SKIP,
    ScheduleOverlapPolicy.CANCEL_OTHER,
    ScheduleOverlapPolicy.TERMINATE_OTHER,
  ],
  isOurs: (scheduleId) => scheduleId.startsWith(ID_START),
  tell: async (client, schedule, state) => ({
    projectId: scheduledProject(state.scheduleId),
    ...specOf(schedule),
    ...state,
    workers: await countPollers(client, exportTaskQueue(state.taskQueue), 'activity'),
  }),
};

/**
 * Creates the Schedule of a project's nightly exports, or changes only the settings that are given. Without `paused` it
 * stays paused or active. Throws InvalidInputError.
 */
export async function ensureExportSchedule(
  client: Client,
  taskQueue: string,
  settings: ExportScheduleSettings,
): Promise<'created' | 'updated'> {
  checkExportSchedule(settings);
  const { projectId, paused } = settings;
  return ensureSchedule(client, {
    ...{ scheduleId: visitorExportScheduleId(projectId), isWhole: true, paused },
    definition: (current) => definitionOf(settings, current, taskQueue),
  });
}

/** All Schedules of nightly exports in the namespace, by id. */
export function listExportSchedules(client: Client, options: CallOptions = {}): Promise<ExportSchedule[]> {
  return listSchedules(client, EXPORT_SCHEDULE, options);
}

/** The handle of the Schedule of one project; making one sends no request. Throws InvalidInputError. */
export function exportScheduleHandle(context: ClientContext, given: string): ExportScheduleHandle {
  const projectId = checkId(given, 'projectId');
  const scheduleId = visitorExportScheduleId(projectId);
  return new TemporalScheduleHandle(context, EXPORT_SCHEDULE, { projectId, scheduleId });
}

// What a Schedule of nightly exports says: checked, merged with what it said before, and as Temporal takes it.

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
interface ExportScheduleSpec {
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
function definitionOf(
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
      args: [{ ...inputIn<ScheduledExportInput>(current), projectId, timeZone, days }],
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
function specOf(schedule: ScheduleDescription): ProjectlessSpec & { problem: string | null } {
  const { spec } = schedule;
  const input = inputIn<ScheduledExportInput>(schedule);
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

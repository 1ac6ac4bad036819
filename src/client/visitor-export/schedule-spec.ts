/** What a Schedule of nightly exports says: checked, merged with what it said before, and as Temporal takes it. */
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
import { checkDuration, checkObject, InvalidInputError } from '../../contract/input-checks.js';

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

/** Complete settings of a Schedule. */
export interface ExportScheduleSpec {
  projectId: string;
  timeZone: string;
  hour: number;
  minute: number;
  days: number;
  jitterMs: number;
}

type ProjectlessSpec = Omit<ExportScheduleSpec, 'projectId'>;

/** No time zone changes its clock as late as 4:30. */
export const DEFAULT_SPEC: ProjectlessSpec = { timeZone: 'UTC', hour: 4, minute: 30, days: 3, jitterMs: 10 * 60_000 };
/** How long an outage of Temporal may last before the runs that it swallowed are dropped. */
const CATCHUP_WINDOW = '7 days';

/** Throws InvalidInputError where a setting is wrong by itself, before anything is sent to Temporal. */
export function checkExportSchedule(settings: ExportScheduleSettings): void {
  mergedSpec(DEFAULT_SPEC, settings);
}

/** The spec with the settings that are given; throws InvalidInputError. */
export function mergedSpec(base: ProjectlessSpec, settings: ExportScheduleSettings): ExportScheduleSpec {
  checkObject(settings, 'settings');
  const { jitter } = settings;
  const { projectId, timeZone, days } = checkedInput({
    projectId: settings.projectId,
    timeZone: settings.timeZone ?? base.timeZone,
    days: settings.days ?? base.days,
  });
  return {
    projectId,
    timeZone,
    days,
    hour: checkWhole(settings.hour ?? base.hour, 'hour', 23),
    minute: checkWhole(settings.minute ?? base.minute, 'minute', 59),
    jitterMs: jitter == null ? base.jitterMs : checkDuration(jitter, 'jitter'),
  };
}

function checkedInput(input: ScheduledExportInput | undefined): { projectId: string; timeZone: string; days: number } {
  const spec = parseExportInput(input);
  if (spec.kind !== 'scheduled') throw new InvalidInputError('timeZone', 'must be given');
  return spec;
}

function checkWhole(value: number, field: string, max: number): number {
  if (!Number.isInteger(value) || value < 0 || value > max) {
    throw new InvalidInputError(field, `must be a whole number from 0 to ${max}`);
  }
  return value;
}

/** The spec as Temporal's schedule options. */
export function toScheduleOptions(
  { projectId, timeZone, hour, minute, days, jitterMs }: ExportScheduleSpec,
  taskQueue: string,
): Omit<ScheduleOptions, 'scheduleId' | 'state'> {
  const input: ScheduledExportInput = { projectId, timeZone, days };
  const spec: ScheduleSpec = { calendars: [{ hour, minute }], timezone: timeZone, jitter: jitterMs };
  return {
    spec,
    action: {
      type: 'startWorkflow',
      workflowType: VISITOR_EXPORT_WORKFLOW,
      workflowId: visitorExportScheduleId(projectId),
      taskQueue,
      args: [input],
      staticSummary: `Visitors of the last ${days} ${days === 1 ? 'day' : 'days'}`,
    },
    policies: {
      // A run may take longer than a day where requests are few. The next one then follows it, and later ones are
      // skipped.
      overlap: ScheduleOverlapPolicy.BUFFER_ONE,
      catchupWindow: CATCHUP_WINDOW,
      pauseOnFailure: false,
    },
  };
}

/** Why the runs of a Schedule that Temporal describes fail; null where they do not. */
export function problemOf({ action }: Pick<ScheduleDescription, 'action'>): string | null {
  try {
    checkedInput((action.args as ScheduledExportInput[] | undefined)?.[0]);
    return null;
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    return error.message;
  }
}

/** The spec of a Schedule that Temporal describes. */
export function specOf({ spec, action }: Pick<ScheduleDescription, 'spec' | 'action'>): ProjectlessSpec {
  const [calendar] = spec.calendars ?? [];
  const [input] = (action.args ?? []) as Partial<ScheduledExportInput>[];
  return {
    timeZone: input?.timeZone ?? spec.timezone ?? DEFAULT_SPEC.timeZone,
    hour: calendar?.hour[0]?.start ?? DEFAULT_SPEC.hour,
    minute: calendar?.minute[0]?.start ?? 0,
    days: input?.days ?? 1,
    jitterMs: spec.jitter ?? 0,
  };
}

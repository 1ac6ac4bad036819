/** The Schedules of nightly exports: create one, change it, list them. */
import { ScheduleAlreadyRunning, ScheduleClient, ScheduleOverlapPolicy } from '@temporalio/client';
import type { Client, ScheduleDescription, ScheduleOptions } from '@temporalio/client';
import { scheduledProject, VISITOR_EXPORT_WORKFLOW, visitorExportScheduleId } from '../../contract.js';
import type { DurationInput, ScheduledExportInput } from '../../contract.js';
import { checkObject, duration, optional, TEXT, whole } from '../../contract/kinds.js';
import { InvalidInputError } from '../../contract/errors.js';
import { lenientOptions, schedulesWithId } from '../../temporal/workflow-clients.js';
import { parseExportInput } from '../../exports/input.js';
import { type CallOptions, checkNames, type Names } from '../settings.js';
import { temporalCall } from '../temporal-call.js';

/** Settings of a Schedule; what is left out stays as it is, and takes its default in a new Schedule. */
export interface ExportScheduleSettings {
  projectId: string;
  /** IANA name: the calendar of the days that are exported, and of the hour. Default UTC. */
  timeZone?: string | null | undefined;
  /** Local time of day; default 4:30, which every day of every time zone has exactly once. */
  hour?: number | null | undefined;
  minute?: number | null | undefined;
  /** How many days each scheduled run exports anew, so that late data count; default 3. */
  days?: number | null | undefined;
  /** By how much each scheduled run may start later; default 10 minutes. */
  jitter?: DurationInput | null | undefined;
  paused?: boolean | null | undefined;
  /** Whose workers export, and so into which store; default that of the client in a new Schedule. */
  taskQueue?: string | null | undefined;
}

const SETTINGS: Names<ExportScheduleSettings> = {
  projectId: true,
  timeZone: true,
  hour: true,
  minute: true,
  days: true,
  jitter: true,
  paused: true,
  taskQueue: true,
};

/** A Schedule of nightly exports as Temporal has it. */
export interface ExportSchedule {
  projectId: string;
  scheduleId: string;
  timeZone: string;
  /** Null, as the minute, if another tool gave the Schedule no time of day. */
  hour: number | null;
  minute: number | null;
  /** Null if this client lacks the key that decrypts the input of the runs. */
  days: number | null;
  jitterMs: number;
  paused: boolean;
  /** Why it is paused, or was resumed. */
  note: string | null;
  taskQueue: string;
  /** ISO 8601; null if there is none, as in a paused Schedule. */
  nextRunAt: string | null;
}

/** When the runs of a Schedule start, and what they export. */
type ScheduleSpec = Pick<ExportSchedule, 'timeZone' | 'hour' | 'minute' | 'days' | 'jitterMs'>;

/** No time zone changes its clock as late as 4:30. */
const DEFAULT_SPEC = { timeZone: 'UTC', hour: 4, minute: 30, days: 3, jitterMs: 10 * 60_000 } as const;
/** The limit for a list, which takes one request for each Schedule. */
const LIST_MS = 60_000;

/** Creates the Schedule of a project's nightly exports, or changes what is given. Throws InvalidInputError. */
export async function scheduleExports(
  client: Client,
  taskQueue: string,
  settings: ExportScheduleSettings,
): Promise<ExportSchedule & { isNew: boolean }> {
  const definition = definitionOf(settings, DEFAULT_SPEC, taskQueue);
  const scheduleId = visitorExportScheduleId(settings.projectId);
  const isNew = await tryCreate(client, { scheduleId, ...definition, state: { paused: settings.paused ?? false } });
  if (!isNew) await change(client, scheduleId, settings);
  const described = new ScheduleClient(lenientOptions(client)).getHandle(scheduleId).describe();
  return { ...shownSchedule(await described), isNew };
}

/** False if there is a Schedule of that id. */
async function tryCreate(client: Client, options: Pick<ScheduleOptions, 'scheduleId' | 'spec' | 'action' | 'state'>) {
  // A run may take longer than a day. The next one then follows it, and later ones are skipped.
  const policies = {
    overlap: ScheduleOverlapPolicy.BUFFER_ONE,
    catchupWindow: '7 days',
    pauseOnFailure: false,
  } as const;
  try {
    await client.schedule.create({ ...options, policies });
    return true;
  } catch (error) {
    if (error instanceof ScheduleAlreadyRunning) return false;
    throw error;
  }
}

async function change(client: Client, scheduleId: string, settings: ExportScheduleSettings) {
  await client.schedule.getHandle(scheduleId).update((current) => {
    const { workflowType, taskQueue } = current.action;
    if (workflowType !== VISITOR_EXPORT_WORKFLOW) {
      throw new InvalidInputError('projectId', `has a Schedule ${scheduleId} that starts ${workflowType}: remove it`);
    }
    const { paused } = settings;
    const { spec, action } = definitionOf(settings, specOf(current), taskQueue);
    return {
      ...current,
      spec: mergedSpec(current.spec, spec, settings),
      action: { ...current.action, ...action },
      state: { ...current.state, ...(paused != null && { paused }) },
    };
  });
}

/** What another tool said of the runs' times stays: weekdays, an end, or intervals until a time of day is given. */
function mergedSpec(
  current: ScheduleDescription['spec'],
  { calendars = [], ...given }: ScheduleOptions['spec'],
  { hour, minute }: ExportScheduleSettings,
): ScheduleOptions['spec'] {
  const kept = { ...current, ...given };
  if (hour == null && minute == null) return kept;
  const times = (current.calendars ?? []).map((calendar) => ({ ...calendar, ...calendars[0] }));
  return { ...kept, intervals: [], calendars: times.length > 0 ? times : calendars };
}

/** All Schedules of nightly exports in the namespace, by id. */
export function listExportSchedules(client: Client, options: CallOptions = {}): Promise<ExportSchedule[]> {
  return temporalCall(client, { ...options, timeoutMs: options.timeoutMs ?? LIST_MS }, async () => {
    const schedules: ExportSchedule[] = [];
    for await (const description of schedulesWithId(client, visitorExportScheduleId(''))) {
      schedules.push(shownSchedule(description));
    }
    return schedules.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
  });
}

function shownSchedule(description: ScheduleDescription): ExportSchedule {
  const { scheduleId, state, info, action } = description;
  const [next] = info.nextActionTimes;
  return {
    projectId: scheduledProject(scheduleId),
    scheduleId,
    ...specOf(description),
    paused: state.paused,
    note: state.note || null,
    taskQueue: action.taskQueue,
    nextRunAt: next && !state.paused ? next.toISOString() : null,
  };
}

function specOf({ spec, action }: ScheduleDescription): ScheduleSpec {
  const [calendar] = spec.calendars ?? [];
  const [input] = (action.args ?? []) as (Partial<ScheduledExportInput> | undefined)[];
  return {
    timeZone: spec.timezone || DEFAULT_SPEC.timeZone, // empty if another tool gave none
    hour: calendar?.hour[0]?.start ?? null,
    minute: calendar?.minute[0]?.start ?? null,
    days: input === undefined ? null : (input.days ?? 1),
    jitterMs: spec.jitter ?? 0,
  };
}

/** Throws InvalidInputError if a setting is wrong, before anything is sent to Temporal. */
export function checkExportSchedule(settings: ExportScheduleSettings): void {
  definitionOf(settings, DEFAULT_SPEC, '');
}

/** What a Schedule starts, and when: as the settings say, otherwise as `base` says. Throws InvalidInputError. */
function definitionOf(
  given: ExportScheduleSettings,
  base: ScheduleSpec,
  taskQueue: string,
): Pick<ScheduleOptions, 'spec' | 'action'> {
  const settings = checkObject(given, 'settings') as object as ExportScheduleSettings;
  checkNames<object>(settings, 'setting', SETTINGS);
  const { projectId } = settings;
  const input = parseExportInput({
    projectId,
    timeZone: settings.timeZone ?? base.timeZone,
    days: settings.days ?? base.days,
  });
  if (input.kind !== 'scheduled') throw new InvalidInputError('timeZone', 'must be given');
  const { timeZone } = input;
  const hour = whole(0, 23).check(settings.hour ?? base.hour ?? DEFAULT_SPEC.hour, 'hour');
  const minute = whole(0, 59).check(settings.minute ?? base.minute ?? DEFAULT_SPEC.minute, 'minute');
  const jitter = duration().check(settings.jitter ?? base.jitterMs, 'jitter');
  return {
    spec: { calendars: [{ hour, minute }], timezone: timeZone, jitter },
    action: {
      type: 'startWorkflow',
      workflowType: VISITOR_EXPORT_WORKFLOW,
      workflowId: visitorExportScheduleId(projectId),
      taskQueue: optional(TEXT, taskQueue).check(settings.taskQueue, 'taskQueue'),
      args: [{ projectId, timeZone, days: input.days }],
      staticSummary: `Visitors of the last ${input.days} ${input.days === 1 ? 'day' : 'days'}`,
    },
  };
}

import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
  type ScheduleOptions,
  type ScheduleSpec,
} from '@temporalio/client';
import {
  exportTaskQueue,
  scheduledProject,
  visitorExportScheduleId,
  VISITOR_EXPORT_WORKFLOW,
  type DurationInput,
  type VisitorExportNights,
} from '../../contract.js';
import { parseExportInput } from '../../visitor-export/input.js';
import { checkDuration, checkId, InvalidInputError } from '../../contract/input-checks.js';
import { ScheduleMissingError } from '../errors.js';
import { temporalCall } from '../temporal-call.js';

/** What a Schedule of nightly exports may say; what is left out stays as it is, and takes its default in a new one. */
export interface ExportScheduleSettings {
  projectId: string;
  /** IANA name: the calendar of the days that are exported, and of the hour. Default UTC. */
  timeZone?: string | undefined;
  /** Local time of day; default 4:30, which every day has exactly once, whatever its time zone. */
  hour?: number | undefined;
  minute?: number | undefined;
  /** How many days each night exports anew, so that late data count; default 3. */
  days?: number | undefined;
  /** Each night starts up to so much later; default 10 minutes. */
  jitter?: DurationInput | undefined;
  paused?: boolean | undefined;
}

/** A Schedule of nightly exports as Temporal has it. */
export interface ExportSchedule {
  scheduleId: string;
  projectId: string;
  timeZone: string;
  hour: number;
  minute: number;
  days: number;
  jitterMs: number;
  paused: boolean;
  note: string | null;
  taskQueue: string;
  /** Workers that ask for exports of that task queue; 0 means that a night would wait for ever. Null where Temporal does not tell. */
  exportWorkers: number | null;
  /** ISO 8601; null where there is none, as in a paused Schedule. */
  nextRunAt: string | null;
}

interface Nights {
  projectId: string;
  timeZone: string;
  hour: number;
  minute: number;
  days: number;
  jitterMs: number;
}

// No time zone has changed its clock so late in the night.
const DEFAULT_NIGHTS = { timeZone: 'UTC', hour: 4, minute: 30, days: 3, jitterMs: 10 * 60_000 };
/** After an outage of Temporal's own of at most so long, the first night that it swallowed is made up for, and the one after that. */
const CATCHUP_WINDOW = '7 days';
/** Each Schedule is asked for by itself. */
const LIST_MS = 60_000;
const ID_START = visitorExportScheduleId('');
const ACTIVITY_QUEUE = 2; // TASK_QUEUE_TYPE_ACTIVITY

/** Throws InvalidInputError where a setting is wrong by itself, before anything is asked of Temporal. */
export function checkExportSchedule(settings: ExportScheduleSettings): void {
  mergedNights(DEFAULT_NIGHTS, settings);
}

/** Creates the Schedule of a project's nightly exports, or changes what is given; a paused one stays paused. Throws InvalidInputError. */
export async function ensureExportSchedule(
  client: Client,
  taskQueue: string,
  settings: ExportScheduleSettings,
): Promise<'created' | 'updated'> {
  const nights = mergedNights(DEFAULT_NIGHTS, settings);
  const scheduleId = visitorExportScheduleId(nights.projectId);
  try {
    await client.schedule.create({
      scheduleId,
      ...scheduleOf(nights, taskQueue),
      state: { paused: settings.paused ?? false },
    });
    return 'created';
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
  await client.schedule.getHandle(scheduleId).update((kept) => ({
    ...scheduleOf(mergedNights(nightsOf(kept), settings), taskQueue),
    state: { ...kept.state, ...(settings.paused !== undefined && { paused: settings.paused }) },
  }));
  return 'updated';
}

/** All Schedules of nightly exports in the namespace, by id. */
export function listExportSchedules(client: Client): Promise<ExportSchedule[]> {
  return temporalCall(client, { timeoutMs: LIST_MS }, () => readSchedules(client));
}

async function readSchedules(client: Client): Promise<ExportSchedule[]> {
  const found: ExportSchedule[] = [];
  for await (const { scheduleId } of client.schedule.list()) {
    if (!scheduleId.startsWith(ID_START)) continue;
    // One that is removed meanwhile still shows in lists for a moment.
    const schedule = await orNull(client.schedule.getHandle(scheduleId).describe());
    if (schedule) found.push(await toExportSchedule(client, schedule));
  }
  return found.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
}

/** The Schedule of one project; throws ScheduleMissingError. */
export function describeExportSchedule(client: Client, projectId: string): Promise<ExportSchedule> {
  return withSchedule(client, projectId, async (handle) => toExportSchedule(client, await handle.describe()));
}

/** No night runs until it is resumed; throws ScheduleMissingError. */
export function pauseExportSchedule(client: Client, projectId: string, note?: string): Promise<void> {
  return withSchedule(client, projectId, (handle) => handle.pause(note));
}

/** Nights run again; throws ScheduleMissingError. */
export function resumeExportSchedule(client: Client, projectId: string, note?: string): Promise<void> {
  return withSchedule(client, projectId, (handle) => handle.unpause(note));
}

/** Removes the Schedule; a running night goes on, snapshots stay. Throws ScheduleMissingError. */
export function removeExportSchedule(client: Client, projectId: string): Promise<void> {
  return withSchedule(client, projectId, (handle) => handle.delete());
}

async function withSchedule<T>(
  client: Client,
  projectId: string,
  work: (handle: ScheduleHandle) => Promise<T>,
): Promise<T> {
  const scheduleId = visitorExportScheduleId(checkId(projectId, 'projectId'));
  const result = await temporalCall(client, {}, () =>
    orNull(work(client.schedule.getHandle(scheduleId)).then((value) => ({ value }))),
  );
  if (!result) throw new ScheduleMissingError(scheduleId);
  return result.value;
}

async function orNull<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}

function scheduleOf(
  { projectId, timeZone, hour, minute, days, jitterMs }: Nights,
  taskQueue: string,
): Omit<ScheduleOptions, 'scheduleId' | 'state'> {
  const input: VisitorExportNights = { projectId, timeZone, days };
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
      // A night may take longer than a day where requests are few; the next one follows it, and those due meanwhile are left out.
      overlap: ScheduleOverlapPolicy.BUFFER_ONE,
      catchupWindow: CATCHUP_WINDOW,
      pauseOnFailure: false,
    },
  };
}

function mergedNights(base: Omit<Nights, 'projectId'>, settings: ExportScheduleSettings): Nights {
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
    jitterMs: jitter === undefined ? base.jitterMs : checkDuration(jitter, 'jitter'),
  };
}

function checkedInput(input: VisitorExportNights): { projectId: string; timeZone: string; days: number } {
  const spec = parseExportInput(input);
  if (spec.kind !== 'nights') throw new InvalidInputError('timeZone', 'must be given');
  return spec;
}

function checkWhole(value: number, field: string, most: number): number {
  if (!Number.isInteger(value) || value < 0 || value > most) {
    throw new InvalidInputError(field, `must be a whole number from 0 to ${most}`);
  }
  return value;
}

/** Temporal remembers for about five minutes who asked. */
async function exportWorkers(client: Client, taskQueue: string): Promise<number | null> {
  const { namespace } = client.options;
  const request = { namespace, taskQueue: { name: exportTaskQueue(taskQueue) }, taskQueueType: ACTIVITY_QUEUE };
  return client.workflowService.describeTaskQueue(request).then(
    ({ pollers }) => pollers?.length ?? 0,
    () => null,
  );
}

function nightsOf({ spec, action }: Pick<ScheduleDescription, 'spec' | 'action'>): Omit<Nights, 'projectId'> {
  const [calendar] = spec.calendars ?? [];
  const [input] = (action.args ?? []) as Partial<VisitorExportNights>[];
  return {
    timeZone: input?.timeZone ?? spec.timezone ?? DEFAULT_NIGHTS.timeZone,
    hour: calendar?.hour[0]?.start ?? DEFAULT_NIGHTS.hour,
    minute: calendar?.minute[0]?.start ?? 0,
    days: input?.days ?? 1,
    jitterMs: spec.jitter ?? 0,
  };
}

async function toExportSchedule(client: Client, schedule: ScheduleDescription): Promise<ExportSchedule> {
  const { scheduleId, state, info, action } = schedule;
  const [next] = info.nextActionTimes;
  return {
    scheduleId,
    projectId: scheduledProject(scheduleId),
    ...nightsOf(schedule),
    paused: state.paused,
    note: state.note || null,
    taskQueue: action.taskQueue,
    exportWorkers: await exportWorkers(client, action.taskQueue),
    nextRunAt: next && !state.paused ? next.toISOString() : null,
  };
}

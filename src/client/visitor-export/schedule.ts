/** The Schedules of nightly exports: create, change, list, pause, resume, remove. */
import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  type Client,
  type ScheduleDescription,
  type ScheduleHandle,
} from '@temporalio/client';
import { exportTaskQueue, scheduledProject, visitorExportScheduleId } from '../../contract.js';
import { checkId } from '../../contract/input-checks.js';
import { ScheduleMissingError } from '../errors.js';
import { temporalCall } from '../temporal-call.js';
import {
  DEFAULT_SPEC,
  mergedSpec,
  specOf,
  toScheduleOptions,
  type ExportScheduleSettings,
  type ExportScheduleSpec,
} from './schedule-spec.js';

/** A Schedule of nightly exports as Temporal has it. */
export interface ExportSchedule extends ExportScheduleSpec {
  scheduleId: string;
  paused: boolean;
  note: string | null;
  taskQueue: string;
  /**
   * Workers that poll for exports of that task queue; with 0 a run would wait for ever. Null where Temporal does not
   * tell.
   */
  exportWorkers: number | null;
  /** ISO 8601; null where there is none, as in a paused Schedule. */
  nextRunAt: string | null;
}

/** One request for each Schedule takes its time. */
const LIST_MS = 60_000;
const ID_START = visitorExportScheduleId('');
const ACTIVITY_QUEUE = 2; // TASK_QUEUE_TYPE_ACTIVITY

/**
 * Creates the Schedule of a project's nightly exports, or changes only the settings that are given. Without `paused` it
 * stays paused or active. Throws InvalidInputError.
 */
export async function ensureExportSchedule(
  client: Client,
  taskQueue: string,
  settings: ExportScheduleSettings,
): Promise<'created' | 'updated'> {
  const spec = mergedSpec(DEFAULT_SPEC, settings);
  const scheduleId = visitorExportScheduleId(spec.projectId);
  try {
    const state = { paused: settings.paused ?? false };
    await client.schedule.create({ scheduleId, ...toScheduleOptions(spec, taskQueue), state });
    return 'created';
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
  await client.schedule.getHandle(scheduleId).update((current) => ({
    ...toScheduleOptions(mergedSpec(specOf(current), settings), taskQueue),
    state: { ...current.state, ...(settings.paused !== undefined && { paused: settings.paused }) },
  }));
  return 'updated';
}

/** All Schedules of nightly exports in the namespace, by id. */
export function listExportSchedules(client: Client): Promise<ExportSchedule[]> {
  return temporalCall(client, { timeoutMs: LIST_MS }, () => readSchedules(client));
}

async function readSchedules(client: Client): Promise<ExportSchedule[]> {
  const schedules: ExportSchedule[] = [];
  for await (const { scheduleId } of client.schedule.list()) {
    if (!scheduleId.startsWith(ID_START)) continue;
    // A removed Schedule still shows in lists for a moment.
    const schedule = await orNull(client.schedule.getHandle(scheduleId).describe());
    if (schedule) schedules.push(await toExportSchedule(client, schedule));
  }
  return schedules.sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1));
}

/** The Schedule of one project; throws ScheduleMissingError. */
export function describeExportSchedule(client: Client, projectId: string): Promise<ExportSchedule> {
  return withSchedule(client, projectId, async (handle) => toExportSchedule(client, await handle.describe()));
}

/** Starts no run until the Schedule is resumed; throws ScheduleMissingError. */
export function pauseExportSchedule(client: Client, projectId: string, note?: string): Promise<void> {
  return withSchedule(client, projectId, (handle) => handle.pause(note));
}

/** Starts runs again; throws ScheduleMissingError. */
export function resumeExportSchedule(client: Client, projectId: string, note?: string): Promise<void> {
  return withSchedule(client, projectId, (handle) => handle.unpause(note));
}

/** Removes the Schedule; its present run goes on, and snapshots stay. Throws ScheduleMissingError. */
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

/** Temporal remembers pollers for about five minutes. */
async function exportWorkers(client: Client, taskQueue: string): Promise<number | null> {
  const { namespace } = client.options;
  const request = { namespace, taskQueue: { name: exportTaskQueue(taskQueue) }, taskQueueType: ACTIVITY_QUEUE };
  return client.workflowService.describeTaskQueue(request).then(
    ({ pollers }) => pollers?.length ?? 0,
    () => null,
  );
}

async function toExportSchedule(client: Client, schedule: ScheduleDescription): Promise<ExportSchedule> {
  const { scheduleId, state, info, action } = schedule;
  const [next] = info.nextActionTimes;
  return {
    scheduleId,
    projectId: scheduledProject(scheduleId),
    ...specOf(schedule),
    paused: state.paused,
    note: state.note || null,
    taskQueue: action.taskQueue,
    exportWorkers: await exportWorkers(client, action.taskQueue),
    nextRunAt: next && !state.paused ? next.toISOString() : null,
  };
}

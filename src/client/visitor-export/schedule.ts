/** The Schedules of nightly exports: create, change, list, pause, resume, remove. */
import type { Client, ScheduleDescription } from '@temporalio/client';
import { exportTaskQueue, scheduledProject, visitorExportScheduleId } from '../../contract.js';
import { checkId } from '../../contract/input-checks.js';
import {
  countPollers,
  ensureSchedule,
  listSchedules,
  readSchedule,
  setPaused,
  stateAfter,
  stateOf,
  withSchedule,
} from '../schedules.js';
import type { ScheduleState } from '../schedules.js';
import type { CallOptions } from '../temporal-call.js';
import {
  DEFAULT_SPEC,
  mergedSpec,
  problemOf,
  specOf,
  toScheduleOptions,
  type ExportScheduleSettings,
  type ExportScheduleSpec,
} from './schedule-spec.js';

/** A Schedule of nightly exports as Temporal has it. */
export interface ExportSchedule extends ExportScheduleSpec, ScheduleState {
  /**
   * Workers that poll for exports of that task queue; with 0 a run would wait for ever. Null where Temporal does not
   * tell.
   */
  exportWorkers: number | null;
  /** Why its runs fail; null where they do not. */
  problem: string | null;
}

const ID_START = visitorExportScheduleId('');

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
  const fresh = { ...toScheduleOptions(spec, taskQueue), state: { paused: settings.paused ?? false } };
  return ensureSchedule(client, visitorExportScheduleId(spec.projectId), fresh, (current) => ({
    ...toScheduleOptions(mergedSpec(specOf(current), settings), taskQueue),
    state: stateAfter(current, settings.paused),
  }));
}

/** All Schedules of nightly exports in the namespace, by id. */
export function listExportSchedules(client: Client, options: CallOptions = {}): Promise<ExportSchedule[]> {
  const isOurs = (scheduleId: string) => scheduleId.startsWith(ID_START);
  return listSchedules(client, isOurs, (schedule) => toExportSchedule(client, schedule), options);
}

/** The Schedule of one project; throws ScheduleMissingError. */
export function describeExportSchedule(
  client: Client,
  projectId: string,
  options: CallOptions = {},
): Promise<ExportSchedule> {
  const read = (schedule: ScheduleDescription) => toExportSchedule(client, schedule);
  const scheduleId = idOf(projectId);
  return withSchedule(client, scheduleId, () => readSchedule(client, scheduleId, read), options);
}

/** Starts no run until the Schedule is resumed; throws ScheduleMissingError. */
export function pauseExportSchedule(
  client: Client,
  projectId: string,
  note?: string | null,
  options: CallOptions = {},
): Promise<void> {
  return withSchedule(client, idOf(projectId), (handle) => setPaused(handle, true, note), options);
}

/** Starts runs again; throws ScheduleMissingError. */
export function resumeExportSchedule(
  client: Client,
  projectId: string,
  note?: string | null,
  options: CallOptions = {},
): Promise<void> {
  return withSchedule(client, idOf(projectId), (handle) => setPaused(handle, false, note), options);
}

/** Removes the Schedule; its present run goes on, and snapshots stay. Throws ScheduleMissingError. */
export function removeExportSchedule(client: Client, projectId: string, options: CallOptions = {}): Promise<void> {
  return withSchedule(client, idOf(projectId), (handle) => handle.delete(), options);
}

function idOf(projectId: string): string {
  return visitorExportScheduleId(checkId(projectId, 'projectId'));
}

async function toExportSchedule(client: Client, schedule: ScheduleDescription): Promise<ExportSchedule> {
  const { scheduleId, action } = schedule;
  return {
    projectId: scheduledProject(scheduleId),
    ...specOf(schedule),
    ...stateOf(schedule),
    problem: problemOf(schedule),
    exportWorkers: await countPollers(client, exportTaskQueue(action.taskQueue), 'activity'),
  };
}

/** The Schedules of nightly exports: create, change, list, and the handle of one. */
import { ScheduleOverlapPolicy, type Client } from '@temporalio/client';
import { exportTaskQueue, scheduledProject, VISITOR_EXPORT_WORKFLOW, visitorExportScheduleId } from '../../contract.js';
import { checkId } from '../../contract/input-checks.js';
import { TemporalScheduleHandle, type ScheduleHandle } from '../schedule-handle.js';
import { countPollers, ensureSchedule, listSchedules, type ScheduleKind, type ScheduleState } from '../schedules.js';
import type { ClientContext } from '../settings.js';
import type { CallOptions } from '../temporal-call.js';
import {
  checkExportSchedule,
  definitionOf,
  specOf,
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
    exportWorkers: await countPollers(client, exportTaskQueue(state.taskQueue), 'activity'),
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

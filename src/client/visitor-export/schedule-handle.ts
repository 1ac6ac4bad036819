/** The handle of the Schedule of a project's nightly exports: describe, pause, resume, remove. */
import { visitorExportScheduleId } from '../../contract.js';
import { checkId } from '../../contract/input-checks.js';
import { limitsOf, type ClientContext } from '../settings.js';
import type { CallOptions } from '../temporal-call.js';
import {
  describeExportSchedule,
  pauseExportSchedule,
  removeExportSchedule,
  resumeExportSchedule,
  type ExportSchedule,
} from './schedule.js';

/**
 * The Schedule of a project's nightly exports. An interface, so that a plain object can stand in for it in tests. All
 * its methods throw ScheduleMissingError.
 */
export interface ExportScheduleHandle {
  readonly projectId: string;
  readonly scheduleId: string;

  /** Reads the Schedule. */
  describe(options?: CallOptions): Promise<ExportSchedule>;

  /** Starts no run until it is resumed; the present one goes on. */
  pause(note?: string | null, options?: CallOptions): Promise<void>;

  /** Starts runs again. */
  resume(note?: string | null, options?: CallOptions): Promise<void>;

  /** Removes the Schedule; its present run goes on, and snapshots stay. */
  remove(options?: CallOptions): Promise<void>;
}

/** A handle that asks Temporal; making one sends no request, and throws InvalidInputError. */
export class TemporalExportScheduleHandle implements ExportScheduleHandle {
  readonly projectId: string;
  readonly scheduleId: string;
  readonly #context: ClientContext;

  constructor(context: ClientContext, projectId: string) {
    this.#context = context;
    this.projectId = checkId(projectId, 'projectId');
    this.scheduleId = visitorExportScheduleId(projectId);
  }

  describe(options: CallOptions = {}): Promise<ExportSchedule> {
    return describeExportSchedule(this.#context.client, this.projectId, limitsOf(this.#context, options));
  }

  pause(note?: string | null, options: CallOptions = {}): Promise<void> {
    return pauseExportSchedule(this.#context.client, this.projectId, note, limitsOf(this.#context, options));
  }

  resume(note?: string | null, options: CallOptions = {}): Promise<void> {
    return resumeExportSchedule(this.#context.client, this.projectId, note, limitsOf(this.#context, options));
  }

  remove(options: CallOptions = {}): Promise<void> {
    return removeExportSchedule(this.#context.client, this.projectId, limitsOf(this.#context, options));
  }
}

/** Exports of the fake client, and the Schedules of nightly ones, which start none by themselves. */
import { visitorExportScheduleId, type VisitorExportRangeInput } from '../../contract.js';
import { checkId } from '../../contract/input-checks.js';
import { rangeExportStart, type VisitorExportHandle } from '../visitor-export/handle.js';
import type { ExportScheduleHandle } from '../visitor-export/schedule-handle.js';
import {
  checkExportSchedule,
  DEFAULT_SPEC,
  mergedSpec,
  type ExportScheduleSettings,
  type ExportScheduleSpec,
} from '../visitor-export/schedule-spec.js';
import { FakeExport } from './fake-export.js';
import { FakeScheduleStore } from './fake-schedule-store.js';

/** What nobody can tell without a server. */
const KNOWN = { problem: null, exportWorkers: null };

/** The exports of a fake client. */
export class FakeExports {
  readonly all: FakeExport[] = [];
  readonly schedules: FakeScheduleStore<ExportScheduleSpec, typeof KNOWN>;

  constructor(taskQueue: string) {
    this.schedules = new FakeScheduleStore(taskQueue, KNOWN);
  }

  /** Starts one, or joins the one of the range that runs. Throws InvalidInputError. */
  start(range: VisitorExportRangeInput): VisitorExportHandle {
    const { workflowId, input } = rangeExportStart(range);
    const running = this.all.find((one) => one.workflowId === workflowId && !one.hasEnded);
    if (running) return running.handle;
    const started = new FakeExport(workflowId, input);
    this.all.push(started);
    return started.handle;
  }

  /** Creates or changes a Schedule. Throws InvalidInputError. */
  ensure(settings: ExportScheduleSettings): 'created' | 'updated' {
    checkExportSchedule(settings);
    const { projectId, paused } = settings;
    const specAfter = (there: ExportScheduleSpec | null) => mergedSpec(there ?? DEFAULT_SPEC, settings);
    return this.schedules.ensure(visitorExportScheduleId(projectId), paused, specAfter);
  }

  /** Throws InvalidInputError. */
  handle(given: string): ExportScheduleHandle {
    const projectId = checkId(given, 'projectId');
    return { projectId, ...this.schedules.handle(visitorExportScheduleId(projectId)) };
  }
}

/** Which days a run exports, who writes each of them, and what becomes of a day that fails. */
import {
  ApplicationFailure,
  CancellationScope,
  ContinueAsNew,
  executeChild,
  isCancellation,
  makeContinueAsNewFunc,
  ParentClosePolicy,
  setCurrentDetails,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import {
  defineSearchAttributeKey,
  SearchAttributeType,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/common';
import { invalidInputFailure } from '../../agent-job/closed-run.js';
import {
  DEFAULT_PRIORITY,
  visitorExportWorkflowId,
  type FailedDay,
  type FailedDaysDetails,
  type SnapshotReceipt,
  type VisitorExportInput,
  type VisitorExportRange,
  type VisitorExportRangeInput,
  type VisitorExportResult,
} from '../../contract.js';
import { parseExportInput, toRangeInput, type ExportSpec } from '../../visitor-export/input.js';
import { daysBefore } from '../../visitor-export/date-range.js';
import type { RangeState } from '../../visitor-export/range-transitions.js';
import { maySecondScan } from '../../visitor-export/scan-checkpoint.js';
import { InvalidInputError } from '../../contract/errors.js';
import { handedOn } from '../handed-on.js';
import { isNewRunWanted, isOtherVersionCurrent, nextRunVersion } from '../worker-version.js';
import { failureOf, writeProjectReport } from './activities.js';
import { exportRange } from './range-export.js';
import { rangeTitle } from './range-shown.js';

/** What continue-as-new passes on, inside the input; ignored in a run that does not continue another. */
interface Continued extends ExportState {
  version: number;
  /** Checked by the first run: a worker with other time zones need not know the one that was given. */
  spec: ExportSpec;
}

interface ExportState {
  ranges: VisitorExportRange[];
  next: number;
  snapshots: SnapshotReceipt[];
  failed: FailedDay[];
  rangeState: RangeState | null;
}

/** Raised with every change of `Continued` that another release would misread. */
const CONTINUED_VERSION = 1;

const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);
/** How often a run tries to write a date range that another run is writing. */
const WRITER_WAIT_MS = { first: 1_000, max: 5 * 60_000 };

/**
 * Exports the visitors of a date range, or of each of the days before a Schedule's time, into snapshots that say
 * whether they can be relied on. Names, shapes and failures: docs/exports.md.
 */
export async function visitorExport(input: VisitorExportInput): Promise<VisitorExportResult> {
  const { spec, state } = open(input);
  for (; state.next < state.ranges.length; state.next++) {
    const range = state.ranges[state.next] as VisitorExportRange;
    try {
      const next = (rangeState: RangeState | null) => continueRun(input, spec, { ...state, rangeState });
      const { snapshots } = await exportOnce(range, spec, state, next);
      state.snapshots.push(...snapshots);
    } catch (error) {
      // A cancelled child is a failed day. A cancellation of this run ends it.
      const isCancelled = isCancellation(error) && CancellationScope.current().consideredCancelled;
      if (spec.kind !== 'scheduled' || isCancelled || error instanceof ContinueAsNew) throw error;
      state.failed.push(failedDay(range, error));
    }
    state.rangeState = null;
    // The other days are the next version's.
    if (isOtherVersionCurrent() && state.next + 1 < state.ranges.length) {
      await continueRun(input, spec, { ...state, next: state.next + 1 });
    }
  }
  if (spec.kind === 'scheduled' && state.snapshots.length > 0) await writeProjectReport(spec.projectId);
  return conclude(state);
}

function open(input: VisitorExportInput): { spec: ExportSpec; state: ExportState } {
  const continued = handedOn<Continued>(input, CONTINUED_VERSION);
  if (continued) {
    const { version: _, spec, ...state } = continued;
    return { spec, state };
  }
  try {
    const spec = parseExportInput(input);
    const ranges = rangesOf(spec);
    return { spec, state: { ranges, next: 0, snapshots: [], failed: [], rangeState: null } };
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw invalidInputFailure(error);
  }
}

/**
 * The days of a scheduled run follow from its nominal time, so that a late run or a backfill exports the right ones.
 */
function rangesOf(spec: ExportSpec): VisitorExportRange[] {
  if (spec.kind === 'range') return [spec.range];
  const { projectId, timeZone, days } = spec;
  const scheduledAt = workflowInfo().typedSearchAttributes.get(SCHEDULED_AT);
  if (!scheduledAt) {
    throw new InvalidInputError('timeZone', 'is for runs of a Schedule; without one give dateFrom and dateTo');
  }
  return daysBefore(scheduledAt.getTime(), timeZone, days).map((dates) => ({ projectId, ...dates }));
}

/** Exports one date range, as its one writer or through it. */
async function exportOnce(
  range: VisitorExportRange,
  spec: ExportSpec,
  { snapshots, rangeState }: ExportState,
  next: (rangeState: RangeState | null) => Promise<never>,
): Promise<VisitorExportResult> {
  const options = spec.kind === 'range' ? spec : { secondScan: maySecondScan(snapshots), priority: DEFAULT_PRIORITY };
  const { secondScan, priority } = options;
  if (workflowInfo().workflowId === writerId(range)) {
    return exportRange(range, { secondScan, priority, carried: rangeState, continueAsNew: next });
  }
  return throughWriter(range, toRangeInput(range, options), () => next(null));
}

/** Starts the date range's writer as a child; waits while another run's writer is at work. */
async function throughWriter(
  range: VisitorExportRange,
  input: VisitorExportRangeInput,
  next: () => Promise<never>,
): Promise<VisitorExportResult> {
  for (let waitMs = WRITER_WAIT_MS.first; ; waitMs = Math.min(2 * waitMs, WRITER_WAIT_MS.max)) {
    setCurrentDetails(`**${rangeTitle(range)}**`);
    try {
      return await executeChild(visitorExport, {
        workflowId: writerId(range),
        args: [input],
        staticSummary: rangeTitle(range),
        // A cancelled writer cleans up after itself.
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw failureOf(error) ?? error;
    }
    setCurrentDetails(`**${rangeTitle(range)}**\n\n**Waits** for another run that is writing this date range`);
    await sleep(waitMs);
    if (isNewRunWanted()) await next();
  }
}

function writerId({ projectId, dateFrom, dateTo }: VisitorExportRange): string {
  return visitorExportWorkflowId(projectId, dateFrom, dateTo);
}

function continueRun(input: VisitorExportInput, spec: ExportSpec, state: ExportState): Promise<never> {
  const continued: Continued = { version: CONTINUED_VERSION, spec, ...state };
  const nextInput: VisitorExportInput & { continued: Continued } = { ...input, continued };
  return makeContinueAsNewFunc<typeof visitorExport>(nextRunVersion())(nextInput);
}

function failedDay({ dateFrom, dateTo }: VisitorExportRange, error: unknown): FailedDay {
  const failure = failureOf(error);
  // The cause of a child that was cancelled, was terminated or timed out has its kind.
  const { cause, message } = error as Error;
  const type = failure?.type ?? (cause instanceof Error ? cause.name : 'Error');
  return { dateFrom, dateTo, type, message: failure?.message ?? message, details: failure?.details?.[0] ?? null };
}

/** The result; if days failed, the failure of the first of them. */
function conclude({ snapshots, failed }: ExportState): VisitorExportResult {
  const [first] = failed;
  if (first) {
    const days = failed.map(({ dateFrom }) => dateFrom).join(', ');
    const message = `${failed.length} of ${failed.length + snapshots.length} days failed (${days}): ${first.message}`;
    throw ApplicationFailure.create({
      type: first.type,
      message,
      nonRetryable: true,
      details: [{ snapshots, failed } satisfies FailedDaysDetails],
    });
  }
  return { snapshots };
}

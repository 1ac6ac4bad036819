import {
  ApplicationFailure,
  CancellationScope,
  ContinueAsNew,
  continueAsNew,
  executeChild,
  isCancellation,
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
import {
  FAILURE,
  visitorExportWorkflowId,
  type SnapshotReceipt,
  type VisitorExportInput,
  type VisitorExportRange,
  type VisitorExportResult,
} from '../../contract.js';
import { parseExportInput, type ExportSpec } from '../../visitor-export/input.js';
import { daysBefore } from '../../visitor-export/date-range.js';
import { InvalidInputError } from '../../agent-job/input.js';
import { rangeTitle } from './details.js';
import { failureOf, nextRequestAfter } from './failure.js';
import { writeNightlyReport } from './nightly-report.js';
import { exportRange, type RangeResult } from './range-export.js';
import type { RangeState } from './range-run.js';

/** A day that could not be exported. */
export interface FailedDay {
  dateFrom: string;
  dateTo: string;
  type: string;
  message: string;
  details: unknown;
}

/** What continue-as-new hands on, inside the input; believed only in a run that continues another. */
interface Continued {
  ranges: VisitorExportRange[];
  next: number;
  snapshots: SnapshotReceipt[];
  failed: FailedDay[];
  /** No request before this time. */
  notBefore: number;
  rangeState: RangeState | null;
}

const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);
/** How often a date range is asked for that another run is writing. */
const TURN_WAIT_MS = { first: 1_000, longest: 5 * 60_000 };
const MOST_EVENTS = 5_000;

/**
 * Exports the visitors of a date range, or of each of the days before a Schedule's time, into snapshots that say whether they can
 * be believed. Names, shapes and failures: docs/contract.md.
 */
export async function visitorExport(input: VisitorExportInput): Promise<VisitorExportResult> {
  const { spec, state } = open(input);
  for (; state.next < state.ranges.length; state.next++) {
    const range = state.ranges[state.next] as VisitorExportRange;
    try {
      const { receipt, notBefore } = await exportOnce(range, state, (rangeState) =>
        goOn(input, { ...state, rangeState }),
      );
      state.snapshots.push(receipt);
      state.notBefore = notBefore;
    } catch (error) {
      // A day's own run that was cancelled is a failed day; this run may have been, too, and then it ends.
      const isCancelled = isCancellation(error) && CancellationScope.current().consideredCancelled;
      if (spec.kind !== 'nights' || isCancelled || error instanceof ContinueAsNew) throw error;
      state.failed.push(failedDay(range, error));
      state.notBefore = Math.max(state.notBefore, nextRequestAfter(error));
    }
    state.rangeState = null;
  }
  if (spec.kind === 'nights' && state.snapshots.length > 0) await writeNightlyReport(spec.projectId);
  return conclude(state);
}

function open(input: VisitorExportInput): { spec: ExportSpec; state: Continued } {
  const spec = checked(() => parseExportInput(input));
  const { continued } = input as { continued?: Continued };
  if (continued && workflowInfo().continuedFromExecutionRunId) return { spec, state: continued };
  const ranges = checked(() => rangesOf(spec));
  return { spec, state: { ranges, next: 0, snapshots: [], failed: [], notBefore: 0, rangeState: null } };
}

function checked<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    throw ApplicationFailure.nonRetryable(error.message, FAILURE.invalidInput);
  }
}

/** A Schedule's date ranges come from its nominal time, so that a late run or a backfill exports the right days. */
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
  state: Continued,
  next: (rangeState: RangeState | null) => Promise<never>,
): Promise<RangeResult> {
  if (workflowInfo().workflowId === writerId(range)) return exportRange(range, state.rangeState, next);
  const waitMs = state.notBefore - Date.now();
  if (waitMs > 0) await sleep(waitMs);
  return throughWriter(range, () => next(null));
}

/** Starts the date range's writer as a child; where one is running already, waits its turn. */
async function throughWriter(range: VisitorExportRange, next: () => Promise<never>): Promise<RangeResult> {
  for (let waitMs = TURN_WAIT_MS.first; ; waitMs = Math.min(2 * waitMs, TURN_WAIT_MS.longest)) {
    setCurrentDetails(`**${rangeTitle(range)}**`);
    try {
      const result = await executeChild(visitorExport, {
        workflowId: writerId(range),
        args: [range],
        staticSummary: rangeTitle(range),
        // The writer tidies up after itself when it is cancelled.
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      });
      const [receipt] = result.snapshots as [SnapshotReceipt];
      return { receipt, notBefore: result.nextRequestAt ? Date.parse(result.nextRequestAt) : 0 };
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw failureOf(error) ?? error;
    }
    setCurrentDetails(`**${rangeTitle(range)}**\n\n**Waits** for another run that is writing this date range`);
    await sleep(waitMs);
    const { continueAsNewSuggested, historyLength } = workflowInfo();
    if (continueAsNewSuggested || historyLength > MOST_EVENTS) await next();
  }
}

function writerId({ projectId, dateFrom, dateTo }: VisitorExportRange): string {
  return visitorExportWorkflowId(projectId, dateFrom, dateTo);
}

function goOn(input: VisitorExportInput, continued: Continued): Promise<never> {
  const nextInput: VisitorExportInput & { continued: Continued } = { ...input, continued };
  return continueAsNew<typeof visitorExport>(nextInput);
}

function failedDay({ dateFrom, dateTo }: VisitorExportRange, error: unknown): FailedDay {
  const failure = failureOf(error);
  const message = failure?.message ?? (error instanceof Error ? error.message : String(error));
  return { dateFrom, dateTo, type: failure?.type ?? kindOf(error), message, details: failure?.details?.[0] ?? null };
}

/** A child that was cancelled or terminated, or timed out, tells in its cause. */
function kindOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return cause instanceof Error ? cause.name : 'Error';
}

/** The result; where days failed, the failure of the first of them. */
function conclude({ snapshots, failed, notBefore }: Continued): VisitorExportResult {
  const [first] = failed;
  if (first) {
    const days = failed.map(({ dateFrom }) => dateFrom).join(', ');
    const message = `${failed.length} of ${failed.length + snapshots.length} days failed (${days}): ${first.message}`;
    throw ApplicationFailure.create({
      type: first.type,
      message,
      nonRetryable: true,
      details: [{ snapshots, failed }],
    });
  }
  return { snapshots, ...(notBefore > Date.now() && { nextRequestAt: new Date(notBefore).toISOString() }) };
}

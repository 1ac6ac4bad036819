/** Which days a run exports, who writes each of them, and what becomes of a day that fails. */
import {
  ApplicationFailure,
  CancellationScope,
  ContinueAsNew,
  executeChild,
  isCancellation,
  log,
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
  visitorExportWorkflowId,
  type FailedDay,
  type FailedDaysDetails,
  type SnapshotReceipt,
  type VisitorExportInput,
  type VisitorExportRange,
  type VisitorExportRangeInput,
  type VisitorExportResult,
} from '../../contract.js';
import { DEFAULT_HOW, parseExportInput, toRangeInput, type ExportSpec } from '../../exports/input.js';
import { daysBefore } from '../../exports/date-range.js';
import type { RangeState } from '../../exports/range-transitions.js';
import { maySecondScan } from '../../exports/scan-checkpoint.js';
import { InvalidInputError } from '../../contract/errors.js';
import { HOUR_MS } from '../../contract/shared.js';
import { handedOn } from '../handed-on.js';
import { isNewRunWanted, isOtherVersionCurrent, nextRunVersion } from '../worker-version.js';
import { failureOf, findMissedDays, writeProjectReport } from './activities.js';
import { exportRange } from './range-export.js';
import { rangeTitle } from './range-shown.js';

/** What continue-as-new passes on, inside the input; ignored in a run that does not continue another. */
interface Continued extends ExportState {
  version: number;
  /** Checked by the first run: a worker with other time zones need not know the one that was given. */
  spec: ExportSpec;
}

interface ExportState {
  /** What is left to export, in this order. */
  todo: RangeTask[];
  /** Whether days that earlier runs missed are among them, or none are to be. */
  hasSoughtMissed: boolean;
  snapshots: SnapshotReceipt[];
  failed: FailedDay[];
  rangeState: RangeState | null;
}

/** A range to export. A day that fails is tried once more, after the others; a `missed` day fails no run. */
interface RangeTask {
  range: VisitorExportRange;
  as: 'first' | 'last' | 'missed';
}

/** Raised with every change of `Continued` that another release would misread. */
const CONTINUED_VERSION = 1;

const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);
/** The waits of a run until it tries again to write a date range that another run is writing. */
const WRITER_WAIT_MS = { first: 1_000, max: 5 * 60_000 };
/** Days wait behind the one that is tried: it gives up sooner, and comes again after them. */
const FIRST_TRY_MS = HOUR_MS;
/** Missed days are made up until 12 hours after a run's nominal time: the next run comes soon. */
const MAKE_UP_MS = 12 * HOUR_MS;

/**
 * Exports the visitors of a date range, or of each of the days before a Schedule's time, into snapshots that say
 * whether they can be relied on. Names, shapes and failures: docs/exports.md.
 */
export async function visitorExport(input: VisitorExportInput): Promise<VisitorExportResult> {
  const { spec, state } = open(input);
  for (let task = await nextTask(spec, state); task; task = await nextTask(spec, state)) {
    try {
      const next = (rangeState: RangeState | null) => continueRun(input, spec, { ...state, rangeState });
      const { snapshots } = await exportOnce(task, spec, state, next);
      state.snapshots.push(...snapshots);
      state.todo.shift();
    } catch (error) {
      // A cancelled child is a failed day. A cancellation of this run ends it.
      const isCancelled = isCancellation(error) && CancellationScope.current().consideredCancelled;
      if (spec.kind !== 'scheduled' || isCancelled || error instanceof ContinueAsNew) throw error;
      noteFailure(state, task, error);
    }
    state.rangeState = null;
    // The other days are the next version's.
    if (isOtherVersionCurrent() && state.todo.length > 0) await continueRun(input, spec, state);
  }
  if (spec.kind === 'scheduled' && state.snapshots.length > 0) await writeProjectReport(spec.projectId);
  return conclude(state);
}

/** The date range to export now. Days that earlier runs missed follow a run's own. */
async function nextTask(spec: ExportSpec, state: ExportState): Promise<RangeTask | undefined> {
  if (spec.kind === 'scheduled' && state.todo.length === 0 && !state.hasSoughtMissed) {
    state.hasSoughtMissed = true;
    if (mayMakeUp()) state.todo.push(...(await missedDays(spec.projectId, state)));
  }
  const [task] = state.todo;
  return task?.as === 'missed' && !mayMakeUp() ? undefined : task;
}

/** Only soon after the nominal time: a backfill and a run that is late make up for nothing. */
function mayMakeUp(): boolean {
  return Date.now() < (scheduledAt()?.getTime() ?? 0) + MAKE_UP_MS;
}

async function missedDays(projectId: string, { failed }: ExportState): Promise<RangeTask[]> {
  const own = failed.map(({ dateFrom }) => dateFrom);
  const days = (await findMissedDays(projectId)).filter(({ dateFrom }) => !own.includes(dateFrom));
  return days.map((dates) => ({ range: { projectId, ...dates }, as: 'missed' }));
}

function noteFailure(state: ExportState, { range, as }: RangeTask, error: unknown): void {
  state.todo.shift();
  // What a person cancelled stays cancelled.
  if (as === 'first' && !isCancellation(error)) state.todo.push({ range, as: 'last' });
  else if (as !== 'missed') state.failed.push(failedDay(range, error));
  // The older ones are still tried: the next run meets the newest first again.
  else log.warn('A day that earlier runs missed could not be exported: the next run tries again', { ...range, error });
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
    const as = ranges.length > 1 ? 'first' : 'last';
    const todo = ranges.map((range): RangeTask => ({ range, as }));
    return { spec, state: { todo, hasSoughtMissed: false, snapshots: [], failed: [], rangeState: null } };
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
  const nominal = scheduledAt();
  if (!nominal) {
    throw new InvalidInputError('timeZone', 'is for runs of a Schedule; without one give dateFrom and dateTo');
  }
  return daysBefore(nominal.getTime(), timeZone, days).map((dates) => ({ projectId, ...dates }));
}

function scheduledAt(): Date | undefined {
  return workflowInfo().typedSearchAttributes.get(SCHEDULED_AT);
}

/** Exports one date range, as its one writer or through it. */
async function exportOnce(
  { range, as }: RangeTask,
  spec: ExportSpec,
  { snapshots, rangeState }: ExportState,
  next: (rangeState: RangeState | null) => Promise<never>,
): Promise<VisitorExportResult> {
  const how = spec.kind === 'range' ? spec.how : { ...DEFAULT_HOW, secondScan: maySecondScan(snapshots) };
  const tried = as === 'last' ? how : { ...how, giveUpAfterMs: FIRST_TRY_MS };
  if (workflowInfo().workflowId === writerId(range)) {
    return exportRange(range, { ...how, carried: rangeState, continueAsNew: next });
  }
  return throughWriter(range, toRangeInput(range, tried), () => next(null));
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

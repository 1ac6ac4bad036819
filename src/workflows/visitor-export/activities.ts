/** The export activities as the workflow calls them, with their time limits, and how they fail. */
import {
  ActivityCancellationType,
  ActivityFailure,
  type ActivityOptions,
  ApplicationFailure,
  ChildWorkflowFailure,
  isCancellation,
  log,
  proxyActivities,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { ExportActivities } from '../../activities/visitor-export/export-activities.js';
import { exportTaskQueue } from '../../contract.js';
import type { DateRange } from '../../exports/date-range.js';
import type { StepFailure } from '../../exports/range-transitions.js';

/** The activities of a date range's one writer. */
export function exportActivities(): Pick<ExportActivities, 'prepareExport' | 'readChunk' | 'publishSnapshot'> {
  const shared: ActivityOptions = {
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    heartbeatTimeout: '20 seconds',
    // A run that ended earlier than its activity would leave rows behind its clean-up, and meet the next writer.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // The export retries by itself: exports/range-transitions.ts.
    retry: { maximumAttempts: 1 },
  };
  // A chunk reads for at most a minute. Its last page and its write take up to two minutes if the store is silent.
  const short: ActivityOptions = { ...shared, startToCloseTimeout: '6 minutes' };
  const { prepareExport } = proxyActivities<ExportActivities>({
    ...short,
    heartbeatTimeout: '5 minutes',
    summary: 'Tidy up after earlier runs',
  });
  const readChunk: ExportActivities['readChunk'] = (input) => {
    // One half of a turn is for the way to a worker, the other for the requests.
    const startMs = input.turn ? (input.turn.until - Date.now()) / 2 : 0;
    const inTime = startMs > 0 && { scheduleToStartTimeout: startMs };
    return proxyActivities<ExportActivities>({ ...short, ...inTime, summary: 'Read pages' }).readChunk(input);
  };
  const { publishSnapshot } = proxyActivities<ExportActivities>({
    ...shared,
    startToCloseTimeout: '1 hour', // copies all rows once
    summary: 'Publish the snapshot',
  });
  return { prepareExport, readChunk, publishSnapshot };
}

/** The last activity of a run. It is best effort, so it is short; a half-done publication is still read whole. */
export function cleanUpActivities(): Pick<ExportActivities, 'cleanUpExport'> {
  return proxyActivities<ExportActivities>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    scheduleToStartTimeout: '1 minute',
    startToCloseTimeout: '10 minutes',
    heartbeatTimeout: '20 seconds',
    retry: { maximumAttempts: 2 },
    summary: 'Remove what is left',
  });
}

type ProjectActivities = Pick<ExportActivities, 'findMissedDays' | 'writeReport'>;

/** Days that earlier runs missed; none if they can't be found. */
export async function findMissedDays(projectId: string): Promise<DateRange[]> {
  const find = projectActivities('Look for missed days').findMissedDays({ projectId });
  return (await orLogged(find, 'Days that earlier runs missed could not be looked for')) ?? [];
}

/** Writes the project's report anew. A failure fails no run whose snapshots are published. */
export async function writeProjectReport(projectId: string): Promise<void> {
  await orLogged(projectActivities('Write the report').writeReport({ projectId }), 'The report could not be written');
}

function projectActivities(summary: string): ProjectActivities {
  return proxyActivities<ProjectActivities>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '15 minutes', // a report reads up to 90 days of snapshots
    scheduleToCloseTimeout: '1 hour',
    heartbeatTimeout: '1 minute',
    retry: { initialInterval: '5 seconds', maximumAttempts: 5 }, // over a minute for a store that fails
    summary,
  });
}

async function orLogged<T>(work: Promise<T>, problem: string): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (isCancellation(error)) throw error;
    log.warn(problem, { error });
    return null;
  }
}

/** The failure that an activity or a child reported; null if it ended in another way. */
export function failureOf(error: unknown): ApplicationFailure | null {
  const wrapped = error instanceof ActivityFailure || error instanceof ChildWorkflowFailure ? error.cause : error;
  return wrapped instanceof ApplicationFailure ? wrapped : null;
}

/** The failure of a step that the export decides about; a cancellation is thrown. */
export function stepFailureOf(error: unknown): StepFailure {
  if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error;
  const failure = failureOf(error);
  const { cause, message } = error;
  const wasNotStarted = cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START';
  // A worker that died reports nothing: its heartbeats stop.
  const silence = `the worker died or fell silent (${cause instanceof Error ? cause.message : message})`;
  return {
    kind: 'failed',
    type: failure ? (failure.type ?? '') : null,
    message: failure?.message ?? silence,
    details: (failure?.details?.[0] as object | undefined) ?? null,
    wasNotStarted,
  };
}

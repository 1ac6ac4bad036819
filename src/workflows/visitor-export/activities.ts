/** The export activities as the workflow calls them, with their time limits. */
import {
  ActivityCancellationType,
  isCancellation,
  log,
  proxyActivities,
  workflowInfo,
  type ActivityOptions,
} from '@temporalio/workflow';
import type { ExportActivities } from '../../activities/visitor-export/export-activities.js';
import { exportTaskQueue } from '../../contract.js';

/** The activities of a date range's one writer. */
export function exportActivities(): Pick<
  ExportActivities,
  'prepareExport' | 'askTurn' | 'readChunk' | 'publishSnapshot'
> {
  const shared: ActivityOptions = {
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    heartbeatTimeout: '20 seconds',
    // A run that ended earlier than its activity would leave rows behind its clean-up, and meet the next writer.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // `withRetries` owns the retries: a worker that dies may have used up requests, and only the workflow keeps the
    // pace.
    retry: { maximumAttempts: 1 },
  };
  // A chunk reads for at most a minute. Its last page and its write take up to four minutes where the store is silent.
  const short: ActivityOptions = { ...shared, startToCloseTimeout: '6 minutes' };
  const { prepareExport } = proxyActivities<ExportActivities>({
    ...short,
    heartbeatTimeout: '5 minutes',
    summary: 'Tidy up after earlier runs',
  });
  const { askTurn } = proxyActivities<ExportActivities>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '30 seconds', // two calls of the Temporal server
    summary: 'Ask for a turn',
  });
  const readChunk: ExportActivities['readChunk'] = (input) => {
    const startMs = input.turn ? (input.turn.until - Date.now()) / 2 : undefined;
    const inTime = startMs !== undefined && { scheduleToStartTimeout: startMs };
    return proxyActivities<ExportActivities>({ ...short, ...inTime, summary: 'Read pages' }).readChunk(input);
  };
  const { publishSnapshot } = proxyActivities<ExportActivities>({
    ...shared,
    startToCloseTimeout: '1 hour', // copies all rows once
    summary: 'Publish the snapshot',
  });
  return { prepareExport, askTurn, readChunk, publishSnapshot };
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

/** Writes the project's report anew. A failure is logged: it fails no run whose snapshots are published. */
export async function writeProjectReport(projectId: string): Promise<void> {
  const { writeReport } = proxyActivities<Pick<ExportActivities, 'writeReport'>>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '15 minutes', // reads up to 90 days of snapshots
    scheduleToCloseTimeout: '1 hour',
    heartbeatTimeout: '1 minute',
    retry: { initialInterval: '5 seconds', maximumAttempts: 5 }, // over a minute for a store that refuses
    summary: 'Write the report',
  });
  try {
    await writeReport({ projectId });
  } catch (error) {
    if (isCancellation(error)) throw error;
    log.warn('The report could not be written', { projectId, error });
  }
}

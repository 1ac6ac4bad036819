import { ActivityCancellationType, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { ExportActivities } from '../../activities/visitor-export/visitor-export.js';
import { exportTaskQueue } from '../../contract.js';

/** Tries of an activity before its failure reaches the workflow. */
export const MOST_ATTEMPTS = 3;

/** What a date range's writer asks of the export workers. */
export function exportActivities(): Pick<ExportActivities, 'prepareExport' | 'readChunk' | 'publishSnapshot'> {
  const taskQueue = exportTaskQueue(workflowInfo().taskQueue);
  const shared = {
    taskQueue,
    heartbeatTimeout: '20 seconds',
    // A run that ends while its activity still writes would leave rows behind its sweep, and meet the date range's next writer.
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // For workers that stop or die; all else the workflow decides, within the pace.
    retry: { maximumInterval: '1 minute', maximumAttempts: MOST_ATTEMPTS },
  } as const;
  // A chunk reads for a minute; its last page and its writing take a little longer, up to four minutes where the store is silent.
  const short = { ...shared, startToCloseTimeout: '6 minutes' } as const;
  const { prepareExport } = proxyActivities<ExportActivities>({
    ...short,
    heartbeatTimeout: '5 minutes',
    summary: 'Tidy up after earlier runs',
  });
  const { readChunk } = proxyActivities<ExportActivities>({ ...short, summary: 'Read pages' });
  const { publishSnapshot } = proxyActivities<ExportActivities>({
    ...shared,
    startToCloseTimeout: '1 hour', // copies the rows once, however many
    summary: 'Publish the snapshot',
  });
  return { prepareExport, readChunk, publishSnapshot };
}

/** A run that ends does not wait long for tidiness, but a publication that it left half-done is read whole. */
export function lastActivities(): Pick<ExportActivities, 'cleanUpExport'> {
  return proxyActivities<ExportActivities>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    scheduleToStartTimeout: '1 minute',
    startToCloseTimeout: '10 minutes',
    heartbeatTimeout: '20 seconds',
    retry: { maximumAttempts: 2 },
    summary: 'Remove what is left',
  });
}

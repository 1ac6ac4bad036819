import { isCancellation, log, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { ExportActivities } from '../../activities/visitor-export/visitor-export.js';
import { exportTaskQueue } from '../../contract.js';

/** Writes the project's report anew; one that fails is logged, and fails no night whose snapshots are there. */
export async function writeNightlyReport(projectId: string): Promise<void> {
  const { writeReport } = proxyActivities<Pick<ExportActivities, 'writeReport'>>({
    taskQueue: exportTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '15 minutes', // reads up to 90 days of snapshots
    scheduleToCloseTimeout: '1 hour',
    heartbeatTimeout: '1 minute',
    retry: { initialInterval: '5 seconds', maximumAttempts: 5 }, // a store that refuses has a good minute to recover
    summary: 'Write the report',
  });
  try {
    await writeReport({ projectId });
  } catch (error) {
    if (isCancellation(error)) throw error;
    log.warn('The report could not be written', { projectId, error });
  }
}

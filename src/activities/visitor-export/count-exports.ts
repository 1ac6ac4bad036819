/** Counts what the steps of exports come to: verdicts of published snapshots, and failures. */
import { ApplicationFailure } from '@temporalio/activity';
import type { SnapshotReceipt } from '../../contract.js';
import type { Metrics, SnapshotVerdict } from '../metrics.js';
import type { ExportActivities } from './export-activities.js';

type Counting = Pick<Metrics, 'snapshotPublished' | 'exportFailed'>;

/** The same activities; each result and failure is counted once it is known. */
export function countExports(activities: ExportActivities, metrics: Counting): ExportActivities {
  const { publishSnapshot } = activities;
  const counted = {
    ...activities,
    publishSnapshot: async (...args: Parameters<typeof publishSnapshot>) => {
      const receipt = await publishSnapshot(...args);
      metrics.snapshotPublished(verdictOf(receipt));
      return receipt;
    },
  };
  const entries = Object.entries(counted) as [string, (input: never) => Promise<unknown>][];
  return Object.fromEntries(
    entries.map(([name, activity]) => [name, countFailures(activity, metrics)]),
  ) as unknown as ExportActivities;
}

function countFailures<I, R>(activity: (input: I) => Promise<R>, metrics: Counting): (input: I) => Promise<R> {
  return (input) =>
    activity(input).catch((error: unknown) => {
      if (error instanceof ApplicationFailure) metrics.exportFailed(error.type ?? '');
      throw error;
    });
}

/** A consistent receipt with drift is of the earlier snapshot, which the scan that drifted did not replace. */
function verdictOf({ consistent, drift }: Pick<SnapshotReceipt, 'consistent' | 'drift'>): SnapshotVerdict {
  if (!consistent) return 'inconsistent';
  return drift ? 'kept' : 'consistent';
}

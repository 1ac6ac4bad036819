/**
 * The failures by which the workflow decides. None is retried by Temporal: the workflow owns the retries, and the pace.
 */
import { ApplicationFailure, Context } from '@temporalio/activity';
import { FAILURE, type ExportRejectedDetails, type SnapshotStoreFailedDetails } from '../../contract.js';
import { SnapshotStoreError } from '../../snapshots/snapshot-store.js';
import { StaleStagingError } from '../../snapshots/staging.js';
import type { RejectedError } from '../../upstream/errors.js';

/** When the pace allows the next request, ISO 8601; undefined where no pace applies. */
export type NextRequestAt = string | undefined;

/** The failure of an export that the upstream refuses; its requests count towards the pace of the next export. */
export function rejectedFailure({ status, error, message }: RejectedError, next: NextRequestAt): ApplicationFailure {
  return failure(FAILURE.exportRejected, message, { status, error } satisfies ExportRejectedDetails, next);
}

/** The failure of a chunk whose worker shut down before it read a page. */
export function stoppedFailure(next: NextRequestAt): ApplicationFailure {
  return failure('WorkerStopped', 'The worker stopped before a page came', {}, next);
}

/** Runs the work of an activity; converts what it throws. */
export async function reported<T>(work: () => Promise<T>, nextRequestAt?: () => NextRequestAt): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFailure(error, nextRequestAt?.());
  }
}

function toFailure(error: unknown, next: NextRequestAt): unknown {
  if (error instanceof SnapshotStoreError) {
    const { operation, error: text, message } = error;
    return failure(
      FAILURE.snapshotStoreFailed,
      message,
      { operation, error: text } satisfies SnapshotStoreFailedDetails,
      next,
    );
  }
  if (error instanceof StaleStagingError) return ApplicationFailure.nonRetryable(error.message, 'StaleStaging');
  if (error instanceof ApplicationFailure || Context.current().cancellationSignal.aborted) return error;
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return failure(FAILURE.exportFailed, message, {}, next, error instanceof Error ? error : undefined);
}

function failure(
  type: string,
  message: string,
  fields: object,
  nextRequestAt: NextRequestAt,
  cause?: Error,
): ApplicationFailure {
  const details = { ...fields, ...(nextRequestAt !== undefined && { nextRequestAt }) };
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: true,
    details: Object.keys(details).length === 0 ? [] : [details],
    ...(cause && { cause }),
  });
}

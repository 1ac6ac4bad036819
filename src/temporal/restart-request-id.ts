import {
  InternalWorkflowStartOptionsSymbol,
  type InternalWorkflowStartOptions,
} from '@temporalio/client/lib/internal.js';

const PREFIX = 'agent-jobs/after/';

/** The request id of every start that goes on from this closed run. */
export function restartRequestId(endedRunId: string): string {
  return `${PREFIX}${endedRunId}`;
}

/** The closed runs that these request ids go on from. */
export function endedRunIdsOf(requestIds: string[]): string[] {
  return requestIds.filter((id) => id.startsWith(PREFIX)).map((id) => id.slice(PREFIX.length));
}

/**
 * Makes a start after a closed run a compare-and-set: all who saw that run as the last one send the same request id, and
 * Temporal answers each repetition with the run that the first one made, even when that has closed in the meantime.
 * The public options have no request id.
 */
export function withRestartRequestId(
  endedRunId: string,
  onConflictOptions?: { attachRequestId: boolean },
): Required<Pick<InternalWorkflowStartOptions, typeof InternalWorkflowStartOptionsSymbol>> {
  return {
    [InternalWorkflowStartOptionsSymbol]: {
      requestId: restartRequestId(endedRunId),
      ...(onConflictOptions && { onConflictOptions }),
    },
  };
}

import {
  InternalWorkflowStartOptionsSymbol,
  type InternalWorkflowStartOptions,
} from '@temporalio/client/lib/internal.js';

/**
 * Makes a start after a closed run a compare-and-set: all who saw that run as the last one send the same request id, and
 * Temporal answers each repetition with the run that the first one made, even when that has closed in the meantime.
 * The public options have no request id.
 */
export function requestAfter(
  endedRunId: string,
): Required<Pick<InternalWorkflowStartOptions, typeof InternalWorkflowStartOptionsSymbol>> {
  return { [InternalWorkflowStartOptionsSymbol]: { requestId: `agent-jobs/after/${endedRunId}` } };
}

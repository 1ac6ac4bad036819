/**
 * Decides the request ids of starts: they make a repeated start idempotent.
 *
 * Needs: an internal symbol of the SDK's client, since its start options have no request id.
 * Can go when: the public options take a request id.
 * Test: `test/private/client.test.ts`.
 */
import { InternalWorkflowStartOptionsSymbol } from '@temporalio/client/lib/internal.js';
import type { InternalWorkflowStartOptions } from '@temporalio/client/lib/internal.js';

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
 * Makes a start after a closed run a compare-and-set. All who saw that run as the last one send the same request id.
 * Temporal answers each repetition with the run that the first one made, even when that has closed in the meantime.
 */
export function withRestartRequestId(
  endedRunId: string,
  onConflictOptions?: { attachRequestId: boolean },
): RequestIdOption {
  return withRequestId(restartRequestId(endedRunId), onConflictOptions);
}

type RequestIdOption = Required<Pick<InternalWorkflowStartOptions, typeof InternalWorkflowStartOptionsSymbol>>;

/** Makes a start that is repeated the same start: Temporal answers it with the run that the first one made. */
export function withRequestId(requestId: string, onConflictOptions?: { attachRequestId: boolean }): RequestIdOption {
  return { [InternalWorkflowStartOptionsSymbol]: { requestId, ...(onConflictOptions && { onConflictOptions }) } };
}

/** How a workflow task fails that Temporal repeats until a worker does it. */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';

/** A failed workflow task is among the last events: its repetitions are not written. */
const LAST_EVENTS = 5;
const TEXT_CHARACTERS = 300;

/**
 * How the present workflow task failed before. Temporal's description counts its attempts and does not tell why. Null
 * where it is new, or only timed out as after the death of a worker.
 */
export async function readTaskFailure(client: Client, run: WorkflowExecutionDescription): Promise<string | null> {
  const attempt = run.raw.pendingWorkflowTask?.attempt ?? 1;
  if (attempt < 2) return null;
  const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: client.options.namespace,
    execution: { workflowId: run.workflowId, runId: run.runId },
    maximumPageSize: LAST_EVENTS,
  });
  const ends = (history?.events ?? []).filter(
    (event) => event.workflowTaskFailedEventAttributes ?? event.workflowTaskTimedOutEventAttributes,
  );
  const failed = ends[0]?.workflowTaskFailedEventAttributes;
  return failed ? (failed.failure?.message ?? 'no reason').slice(0, TEXT_CHARACTERS) : null;
}

/** A worker tells of a key that its file lacks, and one without a file, of the encoding. */
export function lacksKey(failure: string): boolean {
  return /^(the payload keys file |Unknown encoding: binary\/encrypted)/.test(failure);
}

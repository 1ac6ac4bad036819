/**
 * Temporal's description of a workflow counts the attempts of a failing workflow task, and does not tell why they
 * failed. The reason is read from the history. This can go when the description has it.
 */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';

/** A failed workflow task is among the last events: its repetitions are not written. */
const LAST_EVENTS = 5;
const TEXT_CHARACTERS = 300;

/**
 * How the present workflow task failed before; null where it is new, or only timed out as after the death of a worker.
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

/** Which workflow tasks of a history failed because of code. */
import type { WorkflowHandle } from '@temporalio/client';

type HistoryEvents = Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events'];

/**
 * The server repeats a task if a message lands in the very task that ends a run (1), or if over a hundred land in one
 * task (17).
 */
const DONE_AGAIN: readonly unknown[] = [1, 17]; // temporal.api.enums.v1.WorkflowTaskFailedCause

/** The workflow tasks that failed, but for those that the server repeated. */
export function failedTasks(events: HistoryEvents) {
  return (events ?? []).flatMap((event) => {
    const task = event.workflowTaskFailedEventAttributes;
    return task && !DONE_AGAIN.includes(task.cause) ? [task] : [];
  });
}

import { randomUUID } from 'node:crypto';
import type { TestServer } from './dev-server.js';

export const TASK_COMPLETED = 7;

/** Resets a workflow to a finished workflow task, as an operator does, and answers with the id of the new run. */
export async function resetRun(
  { client, namespace }: Pick<TestServer, 'client' | 'namespace'>,
  workflowId: string,
  choose: (completedTasks: number[]) => number,
): Promise<string> {
  const handle = client.workflow.getHandle(workflowId);
  const { events } = await handle.fetchHistory();
  const tasks = events!.filter((e) => e.eventType === TASK_COMPLETED).map((e) => Number(e.eventId));
  const { runId } = await handle.describe();
  const answer = await client.workflowService.resetWorkflowExecution({
    namespace,
    workflowExecution: { workflowId, runId },
    reason: 'test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: choose(tasks) as never,
  });
  return answer.runId;
}

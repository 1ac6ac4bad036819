/** What a job reports to its queue besides its requests: that its run ends, and a turn that no write waits for. */
import { CancellationScope, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import { leaveQueueSignal, reportRequestSignal, requestQueueId, type QueueName } from '../../contract.js';
import type { QueueTurn } from '../../agent-job/queue-messages.js';
import { operationOf, queuedOf, turnOf, type Write } from './write.js';

/** The run ends with this write: its place is free, and a turn goes to the next job. */
export async function leaveQueue(write: Write, projectId: string): Promise<void> {
  if (!queuedOf(write) && !turnOf(write)) return;
  const queue = getExternalWorkflowHandle(requestQueueId({ operation: operationOf(write), projectId }));
  // There may be no such queue any more.
  await queue.signal(leaveQueueSignal, { workflowId: workflowInfo().workflowId }).catch(() => {});
}

/**
 * Gives back a turn that no write waits for: of a queue that was reset, or that gave none for so long that the write
 * was sent without.
 */
export function giveBack({ turn, operation }: QueueTurn, projectId: string): void {
  const report = { turn, outcome: 'unsent', at: Date.now() } as const;
  const queue = getExternalWorkflowHandle(requestQueueId({ operation, projectId } as QueueName));
  // There may be no such queue.
  CancellationScope.nonCancellable(() => queue.signal(reportRequestSignal, report)).catch(() => {});
}

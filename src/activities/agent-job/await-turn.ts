import { activityInfo } from '@temporalio/activity';
import { tryLater } from '../../temporal/activity-attempt.js';
import type { WriteOperation } from '../metrics.js';
import type { Turns } from './turns.js';

export interface AwaitTurnInput {
  projectId: string;
  operation: WriteOperation;
  /** Null before the create. */
  jobId: string | null;
}

/**
 * The activity `awaitTurn`: returns when a write that was refused for now may be sent. It sends no write and knows no
 * prompt, so it may be cancelled at any moment; its waits are kept by the server and cost no history.
 */
export function createAwaitTurn(turns: Turns): (input: AwaitTurnInput) => Promise<void> {
  return async ({ projectId, operation, jobId }) => {
    const holder = activityInfo().workflowExecution?.workflowId ?? '';
    const wait = await turns.take({ operation, projectId, holder }, jobId);
    if (wait) throw tryLater('StillWaiting', wait.reason, 'asks again', wait.waitMs);
  };
}

/** The activity `awaitTurn`: how a write waits for a key. */
import { activityInfo } from '@temporalio/activity';
import { tryLater } from '../../temporal/activity-attempt.js';
import type { WriteOperation } from '../metrics.js';

export interface AwaitTurnInput {
  projectId: string;
  operation: WriteOperation;
  /** Null before the create. */
  jobId: string | null;
}

/** Tells when a write that waited for a key may be sent: null for now, else why not and when to ask again. */
interface KeyTurns {
  awaitKey(input: AwaitTurnInput, holder: string): Promise<{ reason: string; waitMs: number } | null>;
}

/**
 * The activity `awaitTurn`: returns when a write that waited for a key may be sent. It sends no write and knows no
 * prompt, so it may be cancelled at any moment; its waits are kept by the server and cost no history.
 */
export function createAwaitTurn(turns: KeyTurns): (input: AwaitTurnInput) => Promise<void> {
  return async (input) => {
    const wait = await turns.awaitKey(input, activityInfo().workflowExecution?.workflowId ?? '');
    if (wait) throw tryLater('StillWaiting', wait.reason, 'asks again', wait.waitMs);
  };
}

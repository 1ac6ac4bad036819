/**
 * The queue in which a run has a place when it ends: it is told, so that no other waits behind a place that nobody
 * holds, or for a turn that nobody uses. A queue that does not hear of it notices when the next turn reaches no
 * workflow.
 */
import { getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import { leaveQueueSignal, requestQueueId, type QueueName, type RequestTurn } from '../../contract.js';
import type { PendingWrite } from './pending-write.js';

export class LeftQueue {
  #name: QueueName | null = null;
  #turn: string | undefined;
  #mustBeTold = false;

  /** True until the queue was told all. */
  get mustBeTold(): boolean {
    return this.#mustBeTold;
  }

  /** The run ends with this write: does it have a place in a queue, or a turn? */
  leave({ identity, queued, turn }: PendingWrite, projectId: string): void {
    if (!queued && !turn) return;
    this.#name = { operation: identity.kind === 'create' ? 'create' : 'message', projectId };
    this.#turn = turn?.turn;
    this.#mustBeTold = true;
  }

  /** A turn that was on its way when the run ended. */
  takeTurn({ turn }: RequestTurn): void {
    this.#turn = turn;
    this.#mustBeTold = this.#name !== null;
  }

  async tell(): Promise<void> {
    const turn = this.#turn;
    this.#mustBeTold = false;
    if (!this.#name) return;
    try {
      const queue = getExternalWorkflowHandle(requestQueueId(this.#name));
      await queue.signal(leaveQueueSignal, {
        workflowId: workflowInfo().workflowId,
        ...(turn !== undefined && { turn }),
      });
    } catch {
      // There is no such queue any more.
    }
  }
}

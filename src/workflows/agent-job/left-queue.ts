/**
 * What a job reports to its queue besides its requests. A run that ends frees its place and its turn, so that no other
 * job waits behind it. A turn that no write waits for is given back.
 */
import { CancellationScope, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import {
  leaveQueueSignal,
  reportRequestSignal,
  requestQueueId,
  type QueueName,
  type RequestTurn,
} from '../../contract.js';
import type { QueueTurn } from '../../agent-job/queue-messages.js';
import { operationOf, queuedOf, turnOf, type Write } from './write.js';

export class LeftQueue {
  #name: QueueName | null = null;
  #turn: string | undefined;
  #mustReport = false;

  /** True until the queue knows all. */
  get mustReport(): boolean {
    return this.#mustReport;
  }

  /** The run ends with this write: does it have a place in a queue, or a turn? */
  leave(write: Write, projectId: string): void {
    const turn = turnOf(write);
    if (!queuedOf(write) && !turn) return;
    this.#name = { operation: operationOf(write), projectId };
    this.#turn = turn?.turn;
    this.#mustReport = true;
  }

  /** A turn that was on its way when the run ended; false where the run has left no queue. */
  takeTurn({ turn }: RequestTurn): boolean {
    this.#turn = turn;
    this.#mustReport = this.#name !== null;
    return this.#mustReport;
  }

  async report(): Promise<void> {
    const turn = this.#turn;
    this.#mustReport = false;
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

/** Whether the queue of another kind of write gave it. */
export function isOfOtherQueue({ operation }: QueueTurn, write: Write): boolean {
  return operation !== operationOf(write);
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

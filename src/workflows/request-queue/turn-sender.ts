/**
 * Sends turns to the workflows that wait for them, a bounded number at a time, and takes back those that reach nobody.
 */
import { getExternalWorkflowHandle, log } from '@temporalio/workflow';
import { requestTurnSignal, type QueueName } from '../../contract.js';
import type { GivenTurn, QueueRun } from './queue-run.js';

/** Signals under way at a time: bounds a workflow task, and what the server keeps pending (2,000 at most). */
const MAX_UNDER_WAY = 500;

export class TurnSender {
  readonly #run: QueueRun;
  readonly #operation: QueueName['operation'];
  readonly #onArrival: () => void;
  #underWay = 0;

  /** `onArrival` is called when it is known whether a turn has reached its workflow. */
  constructor(run: QueueRun, { operation }: QueueName, onArrival: () => void) {
    this.#run = run;
    this.#operation = operation;
    this.#onArrival = onArrival;
  }

  /** Whether it is known of each turn that was sent whether it arrived. */
  get isIdle(): boolean {
    return this.#underWay === 0;
  }

  /** Gives the turns that may be given now. */
  giveTurns(): void {
    while (this.#underWay < MAX_UNDER_WAY) {
      const given = this.#run.nextTurn();
      if (!given) return;
      this.#underWay += 1;
      void this.#send(given);
    }
  }

  async #send(given: GivenTurn): Promise<void> {
    // A job may have been in the queue of its other writes, too.
    const turn = { ...given.turn, operation: this.#operation };
    try {
      await getExternalWorkflowHandle(given.workflowId).signal(requestTurnSignal, turn);
    } catch {
      // The workflow has ended, so it takes no turn.
      log.info('A workflow that waited for a turn has ended', { waiting: given.workflowId });
      this.#run.giveBack(given);
    }
    this.#underWay -= 1;
    this.#onArrival();
  }
}

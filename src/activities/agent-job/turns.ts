/** When a write may be sent: the one place where a worker holds writes back, for a 429 or for want of a key. */
import { activityInfo } from '@temporalio/activity';
import { tryLater } from '../../temporal/activity-attempt.js';
import type { WriteOperation } from '../metrics.js';
import type { KeyHealth } from './key-health.js';
import { CircuitBreakers, type CircuitBreakerOptions } from './circuit-breaker.js';
import type { WriteOutcome } from '../../upstream/upstream.js';

/** What became of one send, as far as this worker can tell. */
export type SendOutcome = WriteOutcome & {
  /** It was not even sent: others had just been asked to wait, or the key is known to be refused. */
  isHeld?: true;
  /**
   * Of a write in doubt: from this time of the server's clock on, in milliseconds, a read of the upstream tells whether
   * it arrived.
   */
  lookAfter?: number;
};

export interface Turn {
  operation: WriteOperation;
  projectId: string;
  /** The workflow, which has one write at a time. */
  holder: string;
}

/** Whoever waits for a key asks this often whether there is another. */
const NEXT_KEY_MS = 5_000;

export class Turns {
  readonly #breakers: CircuitBreakers;
  readonly #keys: KeyHealth;

  constructor(keys: KeyHealth, options: CircuitBreakerOptions = {}) {
    this.#keys = keys;
    this.#breakers = new CircuitBreakers(options);
  }

  /** Sends a write, or holds it back: then nothing was sent. */
  async send(turn: Turn, hasTurn: boolean, send: () => Promise<WriteOutcome>): Promise<SendOutcome> {
    const held = this.#hold(turn, hasTurn);
    if (held) return held;
    let outcome: WriteOutcome | null = null;
    try {
      outcome = await send();
      return outcome;
    } finally {
      this.#ended(turn, outcome);
    }
  }

  /** Gives a turn (null), or says why not and when to ask again. */
  async take(turn: Turn, jobId: string | null): Promise<{ reason: string; waitMs: number } | null> {
    const refusal = await this.#keys.refusalNow(turn.projectId, jobId);
    if (refusal !== null) return { reason: refusal, waitMs: this.#breakers.postpone(turn.holder, NEXT_KEY_MS) };
    const waitMs = this.#breakers.reserve(nameOf(turn), turn.holder);
    return waitMs > 0 ? { reason: ASKED_TO_WAIT, waitMs } : null;
  }

  #hold(turn: Turn, hasTurn: boolean): SendOutcome | null {
    // The worker that gave the turn may know of a newer key.
    const refusal = hasTurn ? null : this.#keys.refusalOf(turn.projectId);
    if (refusal !== null) return { kind: 'unauthorized', reason: refusal, isHeld: true };
    const waitMs = this.#breakers.acquire(nameOf(turn), turn.holder, hasTurn);
    return waitMs > 0 ? { kind: 'throttled', reason: ASKED_TO_WAIT, retryAfterMs: waitMs, isHeld: true } : null;
  }

  #ended(turn: Turn, outcome: WriteOutcome | null): void {
    const name = nameOf(turn);
    if (outcome?.kind === 'throttled') this.#breakers.trip(name, turn.holder, outcome.retryAfterMs);
    else if (outcome?.kind === 'unauthorized') this.#breakers.halfOpen(name, turn.holder);
    else this.#breakers.release(name, turn.holder, outcome?.kind === 'accepted');
  }
}

const ASKED_TO_WAIT = 'the upstream asked this project to wait';

function nameOf({ operation, projectId }: Turn): string {
  return `${operation} ${projectId}`;
}

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

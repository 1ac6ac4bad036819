/**
 * How a write waits for a key: the activity `awaitTurn`, and how the questions of thousands are spread. Times in
 * milliseconds.
 */
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

/** Somebody who does not ask again for this long after their time waits no more. */
const GONE_AFTER_MS = 60_000;
const ASKS_PER_SECOND = 20;

export interface AskSpreadOptions {
  now?: () => number;
  /** How many may ask in a second; default 20. */
  asksPerSecond?: number;
  /** 0 to 1. */
  random?: () => number;
}

export class AskSpread {
  /** Who waits, and when they are to ask again. */
  readonly #waiting = new Map<string, number>();
  readonly #now: () => number;
  readonly #asksPerSecond: number;
  readonly #random: () => number;

  constructor({
    now = () => performance.now(),
    asksPerSecond = ASKS_PER_SECOND,
    random = Math.random,
  }: AskSpreadOptions = {}) {
    this.#now = now;
    this.#asksPerSecond = Math.min(asksPerSecond, ASKS_PER_SECOND);
    this.#random = random;
  }

  /** When one that waits is to ask again: never all of them at once. */
  postpone(holder: string, waitMs: number): number {
    const now = this.#now();
    this.#waiting.set(holder, now + waitMs);
    const spreadMs = (2 * 1_000 * this.#askingBefore(now + waitMs + GONE_AFTER_MS)) / this.#asksPerSecond;
    const delay = Math.ceil(waitMs + this.#random() * spreadMs);
    this.#waiting.set(holder, now + delay);
    return delay;
  }

  /** This one waits no more. */
  done(holder: string): void {
    this.#waiting.delete(holder);
  }

  #askingBefore(time: number): number {
    let count = 0;
    for (const [holder, due] of this.#waiting) {
      if (due + GONE_AFTER_MS < this.#now()) this.#waiting.delete(holder);
      else if (due <= time) count += 1;
    }
    return count;
  }
}

/**
 * Lanes: after a 429 one kind of write of one project waits in this worker, all of its callers together, so that a thousand
 * waiting creates don't knock one by one. When the time is over one goes ahead, and each success lets twice as many follow.
 */
import { notTakenWaitMs } from '../poll-plan.js';

interface Lane {
  closedUntil: number;
  /** 429 in a row. */
  refusals: number;
  /** How many may be under way at once. */
  width: number;
  underWay: number;
}

const OPEN_WIDTH = 1_024;
/** Where the lane is open but full. */
const NEXT_TURN_MS = 1_000;

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** How long a write has to wait, in milliseconds; 0 lets it pass, and `leave` must follow. */
  enter(name: string): number {
    const lane = this.#lanes.get(name);
    if (!lane) return 0;
    const closedFor = lane.closedUntil - this.#now();
    if (closedFor > 0) return Math.ceil(closedFor);
    if (lane.underWay >= lane.width) return NEXT_TURN_MS;
    lane.underWay += 1;
    return 0;
  }

  /** Ends what `enter` let pass and was taken, refused for good or lost: the lane opens wider. */
  leave(name: string): void {
    const lane = this.#lanes.get(name);
    if (!lane) return;
    lane.underWay = Math.max(0, lane.underWay - 1);
    if (lane.closedUntil > this.#now()) return;
    lane.width *= 2;
    if (lane.width >= OPEN_WIDTH) this.#lanes.delete(name);
  }

  /** Ends what `enter` let pass and was answered 429: the lane closes, for as long as `Retry-After` said or ever longer. */
  close(name: string, retryAfterMs: number | undefined): void {
    const lane = this.#lanes.get(name) ?? { closedUntil: 0, refusals: 0, width: 1, underWay: 0 };
    this.#lanes.set(name, lane);
    lane.underWay = Math.max(0, lane.underWay - 1);
    lane.width = 1;
    // Those that were under way together are one refusal.
    if (lane.closedUntil <= this.#now()) lane.refusals += 1;
    lane.closedUntil = Math.max(lane.closedUntil, this.#now() + notTakenWaitMs(lane.refusals, retryAfterMs));
  }
}

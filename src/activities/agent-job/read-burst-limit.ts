/**
 * When reads may begin. After an outage the polls of all jobs are due in the same second; begun together, they would
 * open as many connections to the upstream at once. A worker begins them one after the other (a leaky bucket), and
 * hands the rest back to the server, each with a time of its own.
 */

/** 1,000 a second. */
const SPACING_MS = 1;
/** So much may come together unspaced. */
const BURST_MS = 100;
/** A longer wait is kept by the server: an attempt has time for its read, too. */
const MAX_WAIT_HERE_MS = 2_000;

export type ReadStart = { kind: 'wait'; ms: number } | { kind: 'later'; ms: number };

export class ReadBurstLimit {
  readonly #now: () => number;
  /** When the next one here, and the next one that is handed back, has its turn. */
  #nextAt = -Infinity;
  #laterAt = -Infinity;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Says when one more read may begin: after a wait here (0: at once), or in a later attempt. */
  reserve(): ReadStart {
    const now = this.#now();
    const nextAt = Math.max(this.#nextAt, now - BURST_MS) + SPACING_MS;
    if (nextAt - now <= MAX_WAIT_HERE_MS) {
      this.#nextAt = nextAt;
      return { kind: 'wait', ms: Math.max(0, nextAt - now) };
    }
    this.#laterAt = Math.max(this.#laterAt, nextAt) + SPACING_MS;
    return { kind: 'later', ms: this.#laterAt - now };
  }
}

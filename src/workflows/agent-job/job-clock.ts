/**
 * The deadline of a job. It restarts with each accepted write, and stands still while a person must decide and while a
 * write waits for its turn.
 */
export interface ClockData {
  deadlineAt: number;
  /** The clock stands still since then; null while it runs. */
  stoppedAt: number | null;
  /** The deadline has passed, and the last poll was made. */
  hasExpired: boolean;
}

/** Pure: no Temporal. Times in milliseconds. */
export class JobClock {
  readonly #data: ClockData;
  readonly #durationMs: number;
  readonly #now: () => number;

  constructor(data: ClockData, durationMs: number, now: () => number) {
    this.#data = { ...data };
    this.#durationMs = durationMs;
    this.#now = now;
  }

  get deadlineAt(): number {
    return this.#data.deadlineAt;
  }

  get hasExpired(): boolean {
    return this.#data.hasExpired;
  }

  /** Counts the whole time anew: from now on, or from when the clock goes on where it stands still. */
  restart(): void {
    this.#data.deadlineAt = this.#now() + this.#durationMs;
    if (this.#data.stoppedAt !== null) this.#data.stoppedAt = this.#now();
    this.#data.hasExpired = false;
  }

  get isStopped(): boolean {
    return this.#data.stoppedAt !== null;
  }

  /** Stands still until `resume`. */
  stop(): void {
    this.#data.stoppedAt ??= this.#now();
  }

  /** A write waits for its turn since then: stands still until `resume`, unless the deadline had passed before. */
  waitForTurn(since: number): void {
    if (this.#data.deadlineAt <= since) return;
    this.#data.stoppedAt ??= since;
    this.#data.hasExpired = false;
  }

  /** Goes on with the time that was left. */
  resume(): void {
    if (this.#data.stoppedAt !== null) this.#data.deadlineAt += this.#now() - this.#data.stoppedAt;
    this.#data.stoppedAt = null;
    this.#data.hasExpired = false;
  }

  expire(): void {
    this.#data.hasExpired = true;
  }

  carry(): ClockData {
    return { ...this.#data };
  }
}

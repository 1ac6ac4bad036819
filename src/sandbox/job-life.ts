/** In which step of its life a job is now. Which steps a life has: job-script.ts. */
import type { JobStep } from './job-script.js';

/** The current step of a job, computed from times on each read: a hundred thousand idle jobs need no timers. */
export class JobLife {
  #index = 0;
  #reads = 0;
  #steps: JobStep[];
  #since: number;
  /** When accepted messages start their steps. */
  #restarts: number[] | undefined;
  #followUpSteps: JobStep[] | undefined;

  constructor(steps: JobStep[], since: number) {
    this.#steps = steps;
    this.#since = since;
  }

  /** Starts other steps at a later time, that of a message. */
  restartAt(time: number, steps: JobStep[]): void {
    this.#followUpSteps = steps;
    (this.#restarts ??= []).push(time);
  }

  /** Sets one step until the next message. */
  fix(step: JobStep, now: number): void {
    this.#restarts = undefined;
    this.#begin([step], now);
  }

  /** The current step; a counted read advances steps that wait for reads. */
  look(now: number, counted: boolean): { step: JobStep; since: number } {
    this.#applyRestarts(now);
    while (this.#nextIsDue(now)) this.#advance(now);
    if (counted) this.#reads++;
    return { step: this.#steps[this.#index] ?? {}, since: this.#since };
  }

  #applyRestarts(now: number): void {
    while (this.#followUpSteps && this.#restarts?.[0] !== undefined && this.#restarts[0] <= now) {
      this.#begin(this.#followUpSteps, this.#restarts.shift() ?? now);
    }
  }

  #begin(steps: JobStep[], since: number): void {
    this.#steps = steps;
    this.#since = since;
    this.#index = 0;
    this.#reads = 0;
  }

  #nextIsDue(now: number): boolean {
    const next = this.#steps[this.#index + 1];
    return next !== undefined && now - this.#since >= (next.afterMs ?? 0) && this.#reads >= (next.afterReads ?? 0);
  }

  #advance(now: number): void {
    const next = this.#steps[++this.#index];
    // A step that waited for reads begins now; one that waited for time began when that time was over.
    this.#since = next?.afterReads === undefined ? this.#since + (next?.afterMs ?? 0) : now;
    this.#reads = 0;
  }
}

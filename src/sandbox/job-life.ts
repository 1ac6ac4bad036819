import type { JobStep } from './job-script.js';

/**
 * Where a job stands in its steps. Worked out when somebody looks, from times alone: a hundred thousand sleeping jobs
 * need no timers.
 */
export class JobLife {
  private index = 0;
  private reads = 0;
  private steps: JobStep[];
  private since: number;
  /** When messages already taken begin to show. */
  private restarts: number[] | undefined;
  private followUpSteps: JobStep[] | undefined;

  constructor(steps: JobStep[], since: number) {
    this.steps = steps;
    this.since = since;
  }

  /** Starts other steps at a later time, that of a message. */
  restartAt(time: number, steps: JobStep[]): void {
    this.followUpSteps = steps;
    (this.restarts ??= []).push(time);
  }

  /** Puts the job into one step for good, until the next message. */
  fix(step: JobStep, now: number): void {
    this.restarts = undefined;
    this.begin([step], now);
  }

  /** The step that shows now; a counted look moves steps that wait for reads. */
  look(now: number, counted: boolean): { step: JobStep; since: number } {
    this.applyRestarts(now);
    while (this.nextIsDue(now)) this.advance(now);
    if (counted) this.reads++;
    return { step: this.steps[this.index] ?? {}, since: this.since };
  }

  private applyRestarts(now: number): void {
    while (this.followUpSteps && this.restarts?.[0] !== undefined && this.restarts[0] <= now) {
      this.begin(this.followUpSteps, this.restarts.shift() ?? now);
    }
  }

  private begin(steps: JobStep[], since: number): void {
    this.steps = steps;
    this.since = since;
    this.index = 0;
    this.reads = 0;
  }

  private nextIsDue(now: number): boolean {
    const next = this.steps[this.index + 1];
    return next !== undefined && now - this.since >= (next.afterMs ?? 0) && this.reads >= (next.afterReads ?? 0);
  }

  private advance(now: number): void {
    const next = this.steps[++this.index];
    // A step that waited for reads begins now; one that waited for time began when that time was over.
    this.since = next?.afterReads === undefined ? this.since + (next?.afterMs ?? 0) : now;
    this.reads = 0;
  }
}

/**
 * How the parts of a run wait: first the dashboard is brought up to date. Whether the deadline goes on meanwhile is
 * decided in write-transitions.ts.
 */
import { condition } from '@temporalio/workflow';
import { mustContinueAsNew } from './continue-as-new.js';
import type { Dashboard } from './dashboard.js';
import type { JobRun } from './job-run.js';

export class WaitPoint {
  readonly #run: JobRun;
  readonly #dashboard: Dashboard;
  readonly #nextInput: () => unknown;

  constructor(run: JobRun, dashboard: Dashboard, nextInput: () => unknown) {
    this.#run = run;
    this.#dashboard = dashboard;
    this.#nextInput = nextInput;
  }

  /** Once this is true, no waiting part begins anything more: the run is over or continues as new. */
  readonly mustYield = (): boolean => this.#run.ending() !== null || mustContinueAsNew(this.#run, this.#nextInput);

  /** Waits until something is true, or a time has passed: then it answers false. */
  async waitUntil(isTrue: () => boolean, forMs = Infinity, summary?: string): Promise<boolean | void> {
    if (forMs <= 0 || isTrue()) return isTrue();
    this.#dashboard.refresh();
    // One more promise in between would change the order of commands that histories have recorded.
    if (forMs === Infinity) return condition(isTrue);
    const isInTime = await condition(isTrue, Math.ceil(forMs), summary === undefined ? {} : { summary });
    return isInTime;
  }

  /** Does something that takes time. */
  perform<T>(work: () => Promise<T>): Promise<T> {
    this.#dashboard.refresh();
    return work();
  }
}

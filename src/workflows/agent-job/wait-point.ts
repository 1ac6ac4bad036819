/** How the parts of a run wait: first the dashboard is brought up to date. They yield when the run is over. */
import { condition, workflowInfo } from '@temporalio/workflow';
import { jsonBytes } from '../../contract/input-checks.js';
import type { Dashboard } from './dashboard.js';
import type { JobRun } from './job-run.js';

/** Continue-as-new input over 2 MiB fails the workflow task for ever; a history can grow a good deal longer instead. */
const MAX_CARRIED_BYTES = 1_900_000;

export class WaitPoint {
  readonly #run: JobRun;
  readonly #dashboard: Dashboard;
  readonly #carry: () => unknown;

  constructor(run: JobRun, dashboard: Dashboard, carry: () => unknown) {
    this.#run = run;
    this.#dashboard = dashboard;
    this.#carry = carry;
  }

  /** Whether the run ends, or goes on in a new one: nobody begins anything any more. */
  readonly mustYield = (): boolean => this.#run.ending() !== null || this.#mustContinueAsNew();

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

  #mustContinueAsNew(): boolean {
    return (
      workflowInfo().continueAsNewSuggested &&
      this.#run.write?.isSending !== true &&
      !this.#run.polls.hasResult &&
      jsonBytes(this.#carry()) < MAX_CARRIED_BYTES
    );
  }
}

import { activityInfo, Context } from '@temporalio/activity';
import type { WatchJobInput } from './watch-job.js';

interface Kept {
  failures: number;
  missing: number;
  further: number;
}

/** What the attempts of one watch tell each other, by the details of a heartbeat. */
export class WatchMemory {
  /** Failed reads in a row. */
  failures: number;
  /** 404 in a row. */
  missing: number;
  /** Reads beyond the first of each attempt. */
  #further: number;
  readonly #before: Kept;
  #readsHere = 0;

  constructor(input: WatchJobInput) {
    const kept = activityInfo().heartbeatDetails as Partial<Kept> | undefined;
    this.#before = { failures: input.failures, missing: input.missing?.count ?? 0, further: 0, ...kept };
    this.failures = this.#before.failures;
    this.missing = this.#before.missing;
    this.#further = this.#before.further;
  }

  /** Of the whole watch so far. */
  get reads(): number {
    return activityInfo().attempt + this.#further;
  }

  add(answer: 'record' | 'notFound' | 'failed'): void {
    this.#readsHere += 1;
    if (this.#readsHere > 1) this.#further += 1;
    this.failures = answer === 'record' ? 0 : this.failures + 1;
    this.missing = answer === 'notFound' ? this.missing + 1 : 0;
  }

  /** A heartbeat costs an action: only where there is something to remember. */
  keep(): void {
    const { failures, missing } = this;
    const kept: Kept = { failures, missing, further: this.#further };
    if (JSON.stringify(kept) !== JSON.stringify(this.#before)) Context.current().heartbeat(kept);
  }
}

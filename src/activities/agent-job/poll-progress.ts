import { activityInfo, Context } from '@temporalio/activity';
import type { WatchJobInput } from './poll-job.js';

interface Kept {
  failures: number;
  missing: number;
  further: number;
  unread: number;
}

/** What the attempts of one watch tell each other, by the details of a heartbeat. */
export class WatchMemory {
  /** Failed reads in a row. */
  failures: number;
  /** 404 in a row. */
  missing: number;
  /** Reads beyond the first of each attempt. */
  #further: number;
  /** Attempts that ended before they had read anything. */
  #unread: number;
  readonly #before: Kept;
  #readsHere = 0;

  constructor(input: WatchJobInput) {
    const first = { failures: input.failures, missing: input.missing?.count ?? 0, further: 0, unread: 0 };
    this.#before = { ...first, ...numbersIn(activityInfo().heartbeatDetails) };
    this.failures = this.#before.failures;
    this.missing = this.#before.missing;
    this.#further = this.#before.further;
    this.#unread = this.#before.unread;
  }

  /** Of the whole watch so far. */
  get reads(): number {
    return activityInfo().attempt - this.#unread + this.#further;
  }

  add(answer: 'record' | 'notFound' | 'failed'): void {
    this.#readsHere += 1;
    if (this.#readsHere > 1) this.#further += 1;
    this.failures = answer === 'record' ? 0 : this.failures + 1;
    this.missing = answer === 'notFound' ? this.missing + 1 : 0;
  }

  /** This attempt ends before its next read. */
  skip(): void {
    if (this.#readsHere === 0) this.#unread += 1;
  }

  /** A heartbeat costs an action: only where there is something to remember. */
  keep(): void {
    const { failures, missing } = this;
    const kept: Kept = { failures, missing, further: this.#further, unread: this.#unread };
    if (JSON.stringify(kept) !== JSON.stringify(this.#before)) Context.current().heartbeat(kept);
  }
}

/** Another release may have kept something else. */
function numbersIn(details: unknown): Partial<Kept> {
  if (typeof details !== 'object' || details === null) return {};
  return Object.fromEntries(Object.entries(details).filter(([, value]) => Number.isFinite(value)));
}

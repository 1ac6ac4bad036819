import { setMaxListeners } from 'node:events';
import type { Worker } from '@temporalio/worker';
import type { Logger } from './logging.js';

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const;
/** The process ends within 25 seconds of the signal, whatever still hangs. */
const EXIT_LIMIT_MS = 24_500;

/** Shuts down in order at the first SIGTERM, SIGINT or SIGQUIT; later ones change nothing. */
export class Shutdown {
  readonly #stopPolls = new AbortController();
  readonly #log: Logger;
  readonly #onBegin: (() => void)[] = [];
  #workers: readonly Worker[] | undefined;

  constructor(log: Logger) {
    this.#log = log;
    // Every read under way listens, and there may be thousands.
    setMaxListeners(0, this.signal);
    for (const signal of SIGNALS) process.on(signal, () => this.begin(signal));
  }

  /** Aborts at once: activities that only read stop, those that write finish. */
  get signal(): AbortSignal {
    return this.#stopPolls.signal;
  }

  onBegin(...listeners: (() => void)[]): void {
    this.#onBegin.push(...listeners);
  }

  /** Runs the workers until shutdown; rejects with the first fatal error, after the other workers have drained. */
  async runUntilEnd(workers: readonly Worker[]): Promise<void> {
    this.#workers = workers;
    const runs = workers.map((worker) => worker.run());
    try {
      await Promise.all(runs);
    } catch (error) {
      this.begin('a worker failed');
      await Promise.allSettled(runs);
      throw error;
    }
  }

  begin(reason: string): void {
    if (this.signal.aborted) return;
    this.#log.info({ reason }, 'Shutting down: takes no new work, finishes the writes in flight');
    this.#stopPolls.abort();
    for (const listener of this.#onBegin) listener();
    // Before the workers run there is nothing to finish.
    if (!this.#workers) process.exit(0);
    setTimeout(() => process.exit(1), EXIT_LIMIT_MS).unref();
    for (const worker of this.#workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  }
}

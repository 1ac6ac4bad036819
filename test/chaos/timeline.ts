/** A fault of the run, with its time. */
interface Moment {
  at: string;
  what: string;
}

export class Timeline {
  readonly moments: Moment[] = [];
  #workerFaults = 0;

  note(what: string): void {
    this.moments.push({ at: new Date().toISOString(), what });
  }

  /** Adds the new ones of all faults injected within workers so far, under the time of this call. */
  noteWorkerFaults(workerFaults: readonly string[]): void {
    for (const fault of workerFaults.slice(this.#workerFaults)) this.note(`fault within a worker: ${fault}`);
    this.#workerFaults = workerFaults.length;
  }

  /** The last moments before a time, each with how many seconds before. */
  before(time: string, most = 5): string[] {
    return this.moments
      .filter(({ at }) => at <= time)
      .slice(-most)
      .map(({ at, what }) => `${((Date.parse(time) - Date.parse(at)) / 1_000).toFixed(1)} s before: ${what}`);
  }
}

/**
 * Lines of this worker's writes: of each project and kind one is sent at a time, first in, first out. So a burst of
 * which nobody knows whether the upstream takes it meets at most one 429 in each worker.
 */
type Admit = (leave: (() => void) | null) => void;

export class SendLines {
  /** Who waits behind the one that sends; a line without anybody is not kept. */
  readonly #lines = new Map<string, Admit[]>();

  /** @param closed Ends the wait of all. */
  constructor(closed: AbortSignal) {
    const endAll = () => [...this.#lines.values()].forEach((line) => line.splice(0).forEach((admit) => admit(null)));
    closed.addEventListener('abort', endAll, { once: true });
  }

  /** Whether others wait. */
  isBusy(name: string): boolean {
    return (this.#lines.get(name)?.length ?? 0) > 0;
  }

  /** Resolves with what must be called after the send; with null where it took too long, or the lines were closed. */
  enter(name: string, forMs: number): Promise<(() => void) | null> {
    const line = this.#lines.get(name);
    const leave = () => this.#leave(name);
    if (!line) {
      this.#lines.set(name, []);
      return Promise.resolve(leave);
    }
    return new Promise((resolve) => {
      const admit: Admit = (mayLeave) => {
        clearTimeout(timer);
        resolve(mayLeave);
      };
      const timer = setTimeout(() => {
        line.splice(line.indexOf(admit), 1);
        resolve(null);
      }, forMs);
      line.push(admit);
    });
  }

  #leave(name: string): void {
    const next = this.#lines.get(name)?.shift();
    if (next) next(() => this.#leave(name));
    else this.#lines.delete(name);
  }
}

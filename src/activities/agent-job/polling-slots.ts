/** Attempts that wait in the worker between two reads: while waits are short, one attempt reads several times. */

/** Each one that waits holds a slot of the worker: beyond so many the server keeps the waits. */
const MOST_STAYING = 2_000;

export interface Stay {
  /** A later watch of the same job has begun in this worker: nobody waits for this one any more. */
  isOver: boolean;
  wake: (() => void) | null;
}

export class Stays {
  readonly #stays = new Map<string, Stay>();
  readonly #shutdownSignal: AbortSignal;
  #staying = 0;

  constructor(shutdownSignal: AbortSignal) {
    this.#shutdownSignal = shutdownSignal;
    shutdownSignal.addEventListener('abort', () => {
      for (const { wake } of this.#stays.values()) wake?.();
    });
  }

  /** Ends the stay that has the same name. */
  begin(name: string): Stay {
    const earlier = this.#stays.get(name);
    if (earlier) earlier.isOver = true;
    earlier?.wake?.();
    const stay: Stay = { isOver: false, wake: null };
    this.#stays.set(name, stay);
    return stay;
  }

  end(name: string, stay: Stay): void {
    if (this.#stays.get(name) === stay) this.#stays.delete(name);
  }

  get hasRoom(): boolean {
    return this.#staying < MOST_STAYING;
  }

  /** Waits, unless the stay is over or the worker shuts down. */
  async pause(stay: Stay, ms: number): Promise<void> {
    if (stay.isOver || this.#shutdownSignal.aborted) return;
    this.#staying += 1;
    await new Promise<void>((resolve) => {
      // A timer may fire a moment early, and a last look must not come before its deadline.
      const timer = setTimeout(resolve, Math.ceil(ms) + 1);
      stay.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    stay.wake = null;
    this.#staying -= 1;
  }
}

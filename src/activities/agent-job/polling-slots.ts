/**
 * In-activity polling: attempts that wait in the worker between two polls, while waits are short. A PollingSlot is one
 * such attempt, by the name of its job. It is not the worker's own activity slot, of which each attempt holds one.
 */

/** Each attempt that waits holds an activity slot of the worker: beyond so many attempts the server keeps the waits. */
const MAX_WAITING = 2_000;

export interface PollingSlot {
  /** A later poll batch of the same job has begun in this worker: nobody waits for this one any more. */
  isSuperseded: boolean;
  wake: (() => void) | null;
}

export class PollingSlots {
  readonly #slots = new Map<string, PollingSlot>();
  readonly #shutdownSignal: AbortSignal;
  #waiting = 0;

  constructor(shutdownSignal: AbortSignal) {
    this.#shutdownSignal = shutdownSignal;
    shutdownSignal.addEventListener('abort', () => {
      for (const { wake } of this.#slots.values()) wake?.();
    });
  }

  /** Gives a slot, and ends the one of the same name. */
  begin(name: string): PollingSlot {
    const earlier = this.#slots.get(name);
    if (earlier) earlier.isSuperseded = true;
    earlier?.wake?.();
    const slot: PollingSlot = { isSuperseded: false, wake: null };
    this.#slots.set(name, slot);
    return slot;
  }

  end(name: string, slot: PollingSlot): void {
    if (this.#slots.get(name) === slot) this.#slots.delete(name);
  }

  get hasRoom(): boolean {
    return this.#waiting < MAX_WAITING;
  }

  /** Waits, unless the slot is superseded or the worker shuts down. */
  async pause(slot: PollingSlot, ms: number): Promise<void> {
    if (slot.isSuperseded || this.#shutdownSignal.aborted) return;
    this.#waiting += 1;
    await new Promise<void>((resolve) => {
      // A timer may fire a moment early, and a last poll must not come before its deadline.
      const timer = setTimeout(resolve, Math.ceil(ms) + 1);
      slot.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    slot.wake = null;
    this.#waiting -= 1;
  }
}

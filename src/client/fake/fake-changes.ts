/** Waits without a server: whoever waits for a change of a fake is told of the next one. */
import { onAbort } from '../abort-signal.js';

/** What happens to one job or export of a fake client, for those who wait for it. */
export class FakeChanges {
  readonly #waiting = new Set<() => void>();

  /** Resolves at the next change; rejects with the signal's reason. */
  next(signal?: AbortSignal | null): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const wake = () => {
        stopListening();
        this.#waiting.delete(wake);
        resolve();
      };
      const stopListening = onAbort(signal, (reason) => {
        this.#waiting.delete(wake);
        reject(reason as Error);
      });
      this.#waiting.add(wake);
    });
  }

  /** Waits for what `read` finds in the end. */
  async until<T>(read: () => T | null, signal?: AbortSignal | null): Promise<T> {
    for (;;) {
      const found = read();
      if (found !== null) return found;
      await this.next(signal);
    }
  }

  /** Tells all who wait. */
  tell(): void {
    for (const wake of this.#waiting) wake();
  }
}

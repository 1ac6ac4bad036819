/** How long a whole call may take, its one repeat included. The caller's own signal ends it too. */
import { ExchangeError, MISSING } from './exchange.js';

/** `AbortSignal.timeout` and `AbortSignal.any` would do the same: only a full collection frees them. */
export class TimeLimit {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal | undefined;
  readonly #limitMs: number;

  constructor(limitMs: number, caller: AbortSignal | undefined) {
    this.#limitMs = limitMs;
    this.#caller = caller;
    this.signal = this.#controller.signal;
    this.#timer = setTimeout(this.#abort, limitMs);
    caller?.addEventListener('abort', this.#abort, { once: true });
    if (caller?.aborted) this.#abort();
  }

  readonly #abort = () => this.#controller.abort();

  /** What the abort means for an exchange that had come this far. */
  errorOfAbort(phase: keyof typeof MISSING): ExchangeError {
    if (this.#caller?.aborted) return new ExchangeError('aborted', 'the caller gave up');
    return new ExchangeError('timeout', `${MISSING[phase]} within ${this.#limitMs / 1_000} s`);
  }

  /** The promise's outcome, or undefined if the limit is over first. */
  async race<T>(promise: Promise<T>): Promise<T | undefined> {
    let onAbort!: () => void;
    const over = new Promise<undefined>((resolve) => (onAbort = () => resolve(undefined)));
    if (this.signal.aborted) onAbort();
    this.signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([over, promise]);
    } finally {
      this.signal.removeEventListener('abort', onAbort);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#abort);
  }
}

import type { ExchangePhase, ExchangeError } from './exchange.js';

/** The one time limit over a whole call, with its one repeat by a rotated key. The caller's own signal ends it too. */
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
  readonly errorOfAbort = (phase: ExchangePhase): ExchangeError =>
    this.#caller?.aborted
      ? { kind: 'aborted', reason: 'the caller gave up' }
      : { kind: 'timeout', reason: `${MISSING[phase]} within ${this.#limitMs / 1_000} s` };

  /** The promise's outcome, or undefined where the limit is over first. */
  async race<T>(promise: Promise<T>): Promise<T | undefined> {
    if (this.signal.aborted) return undefined;
    const { promise: over, resolve } = withResolve<undefined>();
    const onAbort = () => resolve(undefined);
    this.signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([promise, over]);
    } finally {
      this.signal.removeEventListener('abort', onAbort);
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener('abort', this.#abort);
  }
}

const MISSING: Record<ExchangePhase, string> = {
  connecting: 'no connection',
  sending: 'request not taken off the line',
  waiting: 'no answer',
  receiving: 'no complete answer',
};

function withResolve<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve!: (value: T) => void;
  return { promise: new Promise<T>((done) => (resolve = done)), resolve };
}

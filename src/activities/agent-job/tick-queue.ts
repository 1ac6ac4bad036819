/** Hands out thousands of things when each is due. One timer serves all: it fires a few times a second. */

/** A thing may be handed out so late. */
const TICK_MS = 200;

export class TickQueue<T> {
  readonly #onDue: (due: T) => void;
  /** The things, by the number of the tick at which they are due. */
  readonly #byTick = new Map<number, T[]>();
  readonly #timer: NodeJS.Timeout;
  /** The last tick that was handled. */
  #tick = Math.floor(performance.now() / TICK_MS);

  constructor(onDue: (due: T) => void) {
    this.#onDue = onDue;
    this.#timer = setInterval(() => this.#handleDue(), TICK_MS).unref();
  }

  /** Hands a thing out at `at` or soon after, never before; in milliseconds of `performance.now()`. */
  add(due: T, at: number): void {
    const tick = Math.max(Math.ceil(at / TICK_MS), this.#tick + 1);
    const items = this.#byTick.get(tick);
    if (items) items.push(due);
    else this.#byTick.set(tick, [due]);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#byTick.clear();
  }

  /** Hands things out in the order in which they are due, even after this process stood still. */
  #handleDue(): void {
    this.#tick = Math.floor(performance.now() / TICK_MS);
    const ticks = [...this.#byTick.keys()].filter((tick) => tick <= this.#tick).sort((one, other) => one - other);
    for (const tick of ticks) {
      const items = this.#byTick.get(tick)!;
      this.#byTick.delete(tick);
      items.forEach(this.#onDue);
    }
  }
}

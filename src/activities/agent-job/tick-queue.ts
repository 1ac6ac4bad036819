/** Thousands of things by the time at which each is due: one timer for all, which fires a few times a second. */
import type { AsyncResource } from 'node:async_hooks';

/** So late a thing may be handled. */
const TICK_MS = 200;

export interface TickQueueOptions<T> {
  /** In which what is due is handled. */
  scope: AsyncResource;
  onDue: (item: T) => void;
}

export class TickQueue<T> {
  readonly #options: TickQueueOptions<T>;
  /** By the number of the tick at which they are due. */
  readonly #byTick = new Map<number, T[]>();
  #timer: NodeJS.Timeout | null = null;
  /** The last tick that was handled. */
  #tick = 0;

  constructor(options: TickQueueOptions<T>) {
    this.#options = options;
  }

  /** Never handles it before `at`: a last read must not come before its deadline. */
  add(item: T, at: number): void {
    if (this.#timer === null) this.#start();
    const tick = Math.max(Math.ceil(at / TICK_MS), this.#tick + 1);
    const items = this.#byTick.get(tick);
    if (items) items.push(item);
    else this.#byTick.set(tick, [item]);
  }

  clear(): void {
    this.#byTick.clear();
    this.#stop();
  }

  #start(): void {
    this.#tick = Math.floor(performance.now() / TICK_MS);
    const { scope } = this.#options;
    this.#timer = scope.runInAsyncScope(() => setInterval(() => this.#handleDue(), TICK_MS).unref());
  }

  #stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** In the order in which they are due, also where this process stood still. */
  #handleDue(): void {
    const now = Math.floor(performance.now() / TICK_MS);
    const ticks = [...this.#byTick.keys()].filter((tick) => tick <= now).sort((one, other) => one - other);
    this.#tick = now;
    for (const tick of ticks) {
      const items = this.#byTick.get(tick)!;
      this.#byTick.delete(tick);
      items.forEach(this.#options.onDue);
    }
    if (this.#byTick.size === 0) this.#stop();
  }
}

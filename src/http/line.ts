/** Who works next: keys take turns, a request each, so that the requests of one key keep those of no other waiting. */
import { tooMuch } from './limits.js';

const MAX_IN_LINE_MS = 10_000;

/** The requests of one key. Those that have begun hold memory, and go first. */
interface Own {
  readonly begun: Set<() => void>;
  readonly fresh: Set<() => void>;
}

/** The line before the one thread of a server. */
export class Line {
  readonly #maxWaitMs: number;
  /** By key, the next one first. */
  readonly #waiting = new Map<string, Own>();
  #isBusy = false;

  constructor(maxWaitMs = MAX_IN_LINE_MS) {
    this.#maxWaitMs = maxWaitMs;
  }

  /** Waits for a turn of this key, which lasts until the request's next wait. Throws a problem 503 if it is late. */
  async turn(key: string, of: keyof Own): Promise<void> {
    if (!this.#isBusy) return this.#occupy();
    const own = this.#waiting.get(key) ?? { begun: new Set(), fresh: new Set() };
    this.#waiting.set(key, own);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        own[of].delete(goOn);
        reject(tooMuch(503, 'too many requests of this key wait for their turn', 2));
      }, this.#maxWaitMs);
      const goOn = () => {
        clearTimeout(timer);
        resolve();
      };
      own[of].add(goOn);
    });
  }

  /** Before the next turn this process takes in what has come meanwhile. */
  #occupy(): void {
    this.#isBusy = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    this.#isBusy = false;
    const [first] = this.#waiting;
    if (!first) return;
    const [key, { begun, fresh }] = first;
    const [goOn] = begun.size > 0 ? begun : fresh;
    this.#waiting.delete(key);
    if (begun.size + fresh.size > 1) this.#waiting.set(key, { begun, fresh });
    this.#occupy();
    if (!goOn) return;
    for (const some of [begun, fresh]) some.delete(goOn);
    goOn();
  }
}

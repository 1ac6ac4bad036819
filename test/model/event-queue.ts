export interface Event {
  at: number;
  /**
   * `message`: a signal, update or cancellation for the workflow; `job`: a timer or a result for it; `outside`: all
   * else.
   */
  kind: 'message' | 'job' | 'outside';
  happen: () => unknown;
}

const START = Date.parse('2026-01-01T00:00:00.000Z');

/** Future events by time; events of one moment keep the order in which they were added. */
export class EventQueue {
  now = START;
  readonly #events: Event[] = [];

  add(at: number, kind: Event['kind'], happen: () => unknown): void {
    const event = { at: Math.max(at, this.now), kind, happen };
    let place = this.#events.length;
    while (place > 0 && this.#events[place - 1]!.at > event.at) place -= 1;
    this.#events.splice(place, 0, event);
  }

  /**
   * Moves the clock to the time of the next event and removes all events of that time; null where the queue is empty.
   */
  next(): Event[] | null {
    const at = this.#events[0]?.at;
    if (at === undefined) return null;
    this.now = at;
    const first = this.#events.findIndex((event) => event.at > at);
    return this.#events.splice(0, first < 0 ? this.#events.length : first);
  }
}

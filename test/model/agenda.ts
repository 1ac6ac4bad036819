/** What is to happen, by time; events of one moment keep the order in which they were added. */
export interface Event {
  at: number;
  /** `message`: a signal, update or cancellation reaches the workflow; `job`: a timer or a result does; `outside`: all else. */
  kind: 'message' | 'job' | 'outside';
  happen: () => unknown;
}

/** Where the clock begins. */
const START = Date.parse('2026-01-01T00:00:00.000Z');

export class Agenda {
  now = START;
  readonly #events: Event[] = [];

  add(at: number, kind: Event['kind'], happen: () => unknown): void {
    const event = { at: Math.max(at, this.now), kind, happen };
    let place = this.#events.length;
    while (place > 0 && this.#events[place - 1]!.at > event.at) place -= 1;
    this.#events.splice(place, 0, event);
  }

  /** Moves the clock to the next moment at which anything happens, and takes all of it; null where nothing is left. */
  next(): Event[] | null {
    const at = this.#events[0]?.at;
    if (at === undefined) return null;
    this.now = at;
    const first = this.#events.findIndex((event) => event.at > at);
    return this.#events.splice(0, first < 0 ? this.#events.length : first);
  }
}

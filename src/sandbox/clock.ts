/** `real`: the system's time. `manual`: only `advance` moves it. A function supplies the time of a simulation. */
export type ClockSource = 'real' | 'manual' | (() => number);

/** The sandbox's time. */
export class SandboxClock {
  #offsetMs = 0;
  readonly #source: () => number;

  constructor(source: ClockSource, startAt?: number) {
    const frozenAt = Date.now();
    if (typeof source === 'function') this.#source = source;
    else this.#source = source === 'manual' ? () => frozenAt : Date.now;
    if (startAt !== undefined) this.#offsetMs = startAt - this.#source();
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#source() + this.#offsetMs;
  }

  advance(ms: number): void {
    this.#offsetMs += ms;
  }
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;

const formats = new Map<string, Intl.DateTimeFormat>();

/** In milliseconds, because historic offsets are no whole minutes. */
function offsetMs(instant: number, timeZone: string): number {
  let format = formats.get(timeZone);
  if (!format) {
    const numeric = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric' } as const;
    const options = { timeZone, hourCycle: 'h23', ...numeric, minute: 'numeric', second: 'numeric' } as const;
    formats.set(timeZone, (format = new Intl.DateTimeFormat('en-US', options)));
  }
  const part = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
  const local = Date.UTC(part['year']!, part['month']! - 1, part['day'], part['hour'], part['minute'], part['second']);
  return local - Math.floor(instant / 1000) * 1000;
}

function startOfDay(date: string, timeZone: string): number {
  const utc = Date.parse(`${date}T00:00:00Z`);
  // The first guess uses the offset at midnight UTC; the second computation corrects a clock change in between.
  const guess = utc - offsetMs(utc, timeZone);
  return utc - offsetMs(guess, timeZone);
}

/** The instant of a `YYYY-MM-DD` (midnight in the zone) or an ISO 8601 text; undefined for any other text. */
export function parseZonedDate(text: string, timeZone: string): number | undefined {
  const instant = Date.parse(text);
  if (Number.isNaN(instant) || !/^\d{4}-\d{2}-\d{2}/.test(text)) return undefined;
  if (!DATE.test(text)) return instant;
  // Date.parse takes the 31st of any month; a date that is none must not become another day.
  if (new Date(instant).toISOString().slice(0, 10) !== text) return undefined;
  return startOfDay(text, timeZone);
}

/** The calendar date of an instant in a zone, as `YYYY-MM-DD`. */
export function zonedDate(instant: number, timeZone: string): string {
  return new Date(instant + offsetMs(instant, timeZone)).toISOString().slice(0, 10);
}

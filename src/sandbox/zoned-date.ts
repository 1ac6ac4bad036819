const DATE = /^\d{4}-\d{2}-\d{2}$/;

const formats = new Map<string, Intl.DateTimeFormat>();

/** Minutes are not enough for old zones, so the offset is in milliseconds. */
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
  // The offset at midnight is that of the instant itself; the second look corrects a change of offset in between.
  const guess = utc - offsetMs(utc, timeZone);
  return utc - offsetMs(guess, timeZone);
}

/** The instant that a `YYYY-MM-DD` (its midnight in the zone) or an ISO 8601 text means; undefined where it is neither. */
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

/** Local dates and times of IANA time zones. Imports nothing; safe in workflow code. */

/** Whether a text is the IANA name of a time zone that this runtime knows. */
export function isTimeZone(text: string): boolean {
  // An offset such as +01:00 is no name, though some runtimes take it.
  if (!/^[A-Za-z]/.test(text)) return false;
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

/** The date on the calendars of a time zone at a moment, in milliseconds since 1970, as `YYYY-MM-DD`. */
export function localDate(time: number, timeZone: string): string {
  const parts = partsOf(time, timeZone);
  return `${parts.get('year')?.padStart(4, '0')}-${parts.get('month')}-${parts.get('day')}`;
}

/** The time of day on the clocks of a time zone at a moment, as `HH:MM`, from 00:00 to 23:59. */
export function localTime(time: number, timeZone: string): string {
  const parts = partsOf(time, timeZone);
  return `${parts.get('hour')}:${parts.get('minute')}`;
}

function partsOf(time: number, timeZone: string): Map<string, string> {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
  });
  return new Map(format.formatToParts(time).map(({ type, value }) => [type, value]));
}

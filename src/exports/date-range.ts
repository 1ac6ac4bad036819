/** Which days a scheduled run exports, and when a day is over everywhere. Pure and safe in workflow code. */
import { DAY_MS } from '../contract/shared.js';

/** `dateTo` is exclusive. */
export interface DateRange {
  dateFrom: string;
  dateTo: string;
}

/** Whether a text is a date of the calendar as `YYYY-MM-DD`. */
export function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return Number.isFinite(time) && dateOf(time) === text;
}

/**
 * The `days` whole local days before a moment, one date range each, the earliest first. A day may have 23 or 25 hours.
 */
export function daysBefore(time: number, timeZone: string, days: number): DateRange[] {
  const today = localDate(time, timeZone);
  return Array.from({ length: days }, (_, i) => ({
    dateFrom: plusDays(today, i - days),
    dateTo: plusDays(today, i - days + 1),
  }));
}

/** The date a number of days later. */
export function plusDays(date: string, days: number): string {
  return dateOf(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS);
}

/** Whether a date range that was read at a moment may not have been over everywhere. */
export function isProvisional(time: number, dateTo: string): boolean {
  return time < Date.parse(`${dateTo}T12:00:00.000Z`); // the last time zone's day ends
}

/** Whether a date range was read within a day after it was over everywhere, so that later data may be missing. */
export function isReadEarly({ exportedAt, dateTo }: { exportedAt: string; dateTo: string }): boolean {
  return isProvisional(Date.parse(exportedAt) - DAY_MS, dateTo);
}

/** The date by UTC of a moment, in milliseconds since 1970. */
export function dateOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}

/** The date on the calendars of a time zone at a moment, in milliseconds since 1970, as `YYYY-MM-DD`. */
function localDate(time: number, timeZone: string): string {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  const parts = new Map(format.formatToParts(time).map(({ type, value }) => [type, value]));
  return `${parts.get('year')?.padStart(4, '0')}-${parts.get('month')}-${parts.get('day')}`;
}

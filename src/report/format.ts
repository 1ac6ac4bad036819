/** How the report writes its figures. */
import { html, type Html } from './html.js';

/** How much more or less than before; null where there is nothing to compare. */
export function change(now: number | undefined, before: number | undefined): Html | null {
  if (now === undefined || before === undefined) return null;
  if (before === 0) return now === 0 ? html`<span class="flat">±0 %</span>` : html`<span class="up">new</span>`;
  const part = Math.round((100 * (now - before)) / before);
  if (part === 0) return html`<span class="flat">±0 %</span>`;
  return part > 0
    ? html`<span class="up">▲ ${part.toLocaleString('en-US')} %</span>`
    : html`<span class="down">▼ ${-part} %</span>`;
}

/** A number with groups of three digits, and one decimal where it is below 10. */
export function number(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 1 : 0 });
}

/** A share of one in per cent; a dash where there is none. */
export function percent(share: number | null): string {
  return share === null ? '–' : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** A count of days, with its unit. */
export function countOf(days: number): string {
  return days === 1 ? '1 day' : `${days} days`;
}

/** A moment in UTC, to the minute. */
export function moment(instant: string): string {
  return `${instant.slice(0, 16).replace('T', ' ')} UTC`;
}

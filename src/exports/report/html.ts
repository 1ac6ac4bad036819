/** HTML that is safe to insert: `html` makes it, and escapes every other value. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Html | readonly Part[] | null;

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Fills a template. Values are escaped unless they are HTML already; lists are joined, null leaves no text. */
export function html(strings: TemplateStringsArray, ...values: Part[]): Html {
  return new Html(strings.map((text, i) => text + rendered(values[i] ?? null)).join(''));
}

function rendered(part: Part): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(rendered).join('');
  return String(part).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

const MAX_TEXT_CHARACTERS = 500;

/** Text from outside: invisible characters, and those that turn the reading direction, as codes; cut if long. */
export function visible(text: string): string {
  const short = text.length > MAX_TEXT_CHARACTERS ? `${text.slice(0, MAX_TEXT_CHARACTERS).toWellFormed()}…` : text;
  return short.replace(/[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** A table; numbers stand on the right. */
export function table(
  headings: readonly (string | { number: string })[],
  rows: readonly Html[],
  caption: Html | null = null,
): Html {
  const cells = headings.map((heading) =>
    typeof heading === 'string'
      ? html`<th scope="col">${heading}</th>`
      : html`<th scope="col" class="number">${heading.number}</th>`,
  );
  return html`<table>
    ${caption}
    <thead>
      <tr>
        ${cells}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

// How figures are written.

/** The change since before; null if there is nothing to compare. */
export function change(now: number | undefined, before: number | undefined): Html | null {
  if (now === undefined || before === undefined) return null;
  if (before === 0) return now === 0 ? html`<span class="flat">±0 %</span>` : html`<span class="up">new</span>`;
  const part = Math.round((100 * (now - before)) / before);
  if (part === 0) return html`<span class="flat">±0 %</span>`;
  return part > 0
    ? html`<span class="up">▲ ${part.toLocaleString('en-US')} %</span>`
    : html`<span class="down">▼ ${-part} %</span>`;
}

/** A number with groups of three digits, and one decimal below 10. */
export function number(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 1 : 0 });
}

/** A part of 1 in per cent; a dash for null. */
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

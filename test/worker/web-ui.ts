/**
 * What Temporal's own web UI makes of Markdown: the page that it shows in a frame wherever it renders a summary or
 * details.
 */

/** The HTML that a dev server's web UI renders. */
export async function renderedMarkdown(uiUrl: string, markdown: string): Promise<string> {
  const response = await fetch(`${uiUrl}/render?content=${encodeURIComponent(markdown)}`);
  if (!response.ok) throw new Error(`the web UI answered ${response.status}`);
  const page = await response.text();
  return page.slice(page.indexOf('<main>') + '<main>'.length, page.lastIndexOf('</main>'));
}

/** The elements in HTML as they are written, attributes included. */
export function tagsIn(html: string): string[] {
  return [...html.matchAll(/<\/?([^<>/][^<>]*)>/g)].map(([, tag]) => tag!.trim());
}

const ENTITIES: Record<string, string> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  ldquo: '"',
  rdquo: '"',
  hellip: '...',
  lsquo: "'",
  rsquo: "'",
};

/** The text that a reader sees; typographic quotes and dots are what was written, and white space counts once. */
export function textIn(html: string): string {
  const text = html.replace(/<[^<>]*>/g, '').replace(/&(?:#(\d+)|(\w+));/g, (all, code?: string, name?: string) => {
    if (code !== undefined) return String.fromCodePoint(Number(code));
    return ENTITIES[name!] ?? all;
  });
  return asRead(text);
}

/** Text as `textIn` returns it. */
export function asRead(text: string): string {
  return text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .replace(/\. \. \./g, '...')
    .replaceAll(`''`, '"')
    .trim();
}

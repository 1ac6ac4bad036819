/** What the upstream says of a rejection in its own words. */
import { cutToBytes } from '../contract/input-checks.js';

/** Enough to say why; whole error pages are of no use to a reader. */
const MAX_TEXT_BYTES = 500;

/**
 * The `error` and `details` of a body, or else its plain text: shortened, without control characters, and with the key
 * masked. It may repeat the prompt.
 */
export function rejectionText(body: Uint8Array, key: string | undefined): string {
  const text = Buffer.from(body).toString('utf8');
  const said = saidInJson(text) ?? (isMarkup(text) ? '' : text);
  const masked = key ? said.replaceAll(key, '***') : said;
  return cutToBytes(masked.replace(/[\p{Cc}\p{Cf}\p{Surrogate}\s]+/gu, ' ').trim(), MAX_TEXT_BYTES);
}

function saidInJson(text: string): string | undefined {
  const { error, details } = parsed(text);
  if (typeof error !== 'string') return undefined;
  const more: unknown[] = Array.isArray(details) ? details : [];
  const messages = more.map((detail) => (detail as { message?: unknown } | null)?.message);
  // Errors of one cause repeat its text in `details`.
  return [...new Set([error, ...messages.filter((message) => typeof message === 'string')])].join('; ');
}

function parsed(text: string): { error?: unknown; details?: unknown } {
  try {
    return (JSON.parse(text) as object | null) ?? {};
  } catch {
    return {};
  }
}

/** JSON without an `error`, and HTML, say nothing worth showing. */
function isMarkup(text: string): boolean {
  return /^\s*[<{[]/.test(text);
}

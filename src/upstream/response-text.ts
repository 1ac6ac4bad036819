import { cutToBytes } from '../contract/input-checks.js';
import { withoutEcho } from './echo.js';

/** Enough to tell why; whole error pages are of no use to a reader. */
const MAX_TEXT_BYTES = 500;
/** The prompt is searched for so much of it, which bounds the work. */
const MAX_TEXT_SCANNED = 2_000;

/**
 * The upstream's own words about a rejection: its `error` and `details`, else a plain-text body; shortened, without
 * control characters, the key or pieces of the prompt.
 */
export function rejectionText(
  body: Uint8Array,
  { key, prompt }: { key: string | undefined; prompt?: string | undefined },
): string {
  const text = Buffer.from(body).toString('utf8');
  const said = saidInJson(text) ?? (isMarkup(text) ? '' : text);
  const masked = key ? said.replaceAll(key, '***') : said;
  const plain = masked.slice(0, MAX_TEXT_SCANNED);
  const own = prompt === undefined ? plain : withoutEcho(plain, prompt);
  return cutToBytes(own.replace(/[\p{Cc}\p{Cf}\p{Surrogate}\s]+/gu, ' ').trim(), MAX_TEXT_BYTES);
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

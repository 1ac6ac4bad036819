import { cutToBytes } from '../contract/input-checks.js';

/** Prompts are nobody's business but the upstream's: what it repeats of one in its own words is masked, like a key. */

/** A piece of so many letters and digits is no chance. */
const PIECE = 16;
/** Of a shorter prompt all of it, down to this: less would be words that everybody uses. */
const MIN_PIECE = 8;

/** The text with every piece of the prompt masked, however it was quoted, wrapped or capitalized. */
export function withoutEcho(text: string, prompt: string): string {
  const said = lettersOf(text);
  const asked = lettersOf(prompt).letters;
  const size = Math.min(PIECE, asked.length);
  if (size < MIN_PIECE) return text;
  const pieces = new Map<string, number[]>();
  for (let i = 0; i + size <= said.letters.length; i++) {
    const piece = said.letters.slice(i, i + size);
    pieces.set(piece, [...(pieces.get(piece) ?? []), i]);
  }
  const echoed: number[] = [];
  for (let i = 0; i + size <= asked.length; i++) {
    const piece = asked.slice(i, i + size);
    for (const start of pieces.get(piece) ?? []) echoed.push(start);
    pieces.delete(piece);
  }
  return masked(
    text,
    said.places,
    echoed.toSorted((a, b) => a - b),
    size,
  );
}

/** Letters and digits alone, and where each of them stands. */
function lettersOf(text: string): { letters: string; places: number[] } {
  const places: number[] = [];
  let letters = '';
  for (const { 0: letter, index } of text.matchAll(/[\p{L}\p{N}]/gu)) {
    const lower = letter.toLowerCase();
    letters += lower;
    for (let i = 0; i < lower.length; i++) places.push(index);
  }
  return { letters, places };
}

function masked(text: string, places: number[], starts: number[], size: number): string {
  let result = '';
  let end = 0;
  for (const start of starts) {
    const from = places[start]!;
    if (from >= end) result += `${text.slice(end, from)}***`;
    end = Math.max(end, places[start + size - 1]! + 1);
  }
  return result + text.slice(end);
}

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

/**
 * Decides whether something on the way answered in the upstream's place, with a page or a redirect, and where a
 * `Location` points to. What that means to a call is in outcome.ts.
 */
import { type CallContext, type ExchangeResult, headerOf } from './exchange.js';
import { isUsableId } from './schema.js';

const PAGE_STATUSES = [401, 403, 404, 407];
const SPACE = 0x20;
const JSON_STARTS = [...Buffer.from('{[')];

/** Whether an answer is a page: it says nothing of the key, the job or the prompt. */
export function isPage({ status = 0, headers, body, error }: ExchangeResult): boolean {
  if (!PAGE_STATUSES.includes(status)) return false;
  // Cloudflare's mark of a challenge.
  if (headers['cf-mitigated'] !== undefined) return true;
  const [type] = headerOf(headers, 'content-type').toLowerCase().split(/[;, ]/);
  if (type !== 'text/html' && !(status === 404 && type === 'text/plain')) return false;
  // Some upstreams call answers HTML that are empty or JSON.
  const first = body.find((byte) => byte > SPACE);
  return first === undefined ? error !== null : !JSON_STARTS.includes(first);
}

/** What a page is shown as; `text` is its title or its first line, and follows the reason. */
export function shownPage({ status, body, error }: ExchangeResult, key: string | undefined) {
  // One that broke off may end within an echo of the key, which could not be masked.
  const title = error ? '' : titleOf(withoutKey(Buffer.from(body).toString('utf8'), key).slice(0, MAX_EXAMINED));
  return { reason: `a page instead of an answer: ${status}`, text: title && ` ${title}` };
}

/** Where `Location` points to, without its query, which may hold a secret; empty without an address. */
export function shownTarget({ headers }: ExchangeResult, { base, key }: CallContext): string {
  const target = locationOf(headers, base);
  const shown = target ? withoutKey(target.origin + target.pathname, key) : '';
  return shown.length > MAX_TARGET ? `${shown.slice(0, MAX_TARGET)}…` : shown;
}

/** Whether a redirect leads to another origin: the upstream's own answer would hardly. */
export function leavesOrigin({ headers }: ExchangeResult, { base }: CallContext): boolean {
  return (locationOf(headers, base) ?? base).origin !== base.origin;
}

const JOB_PATH = /^v2\/agent\/([^/]+)\/job\/([^/]+)$/;

/** The id of the project's job to which `Location` points, exactly; null if it points to anything else. */
export function jobIdInLocation({ headers }: ExchangeResult, { base }: CallContext, projectId: string): string | null {
  const target = locationOf(headers, base);
  if (!target?.href.startsWith(base.href)) return null;
  try {
    const path = JOB_PATH.exec(target.pathname.slice(base.pathname.length)) ?? [];
    const [project, id = ''] = path.slice(1).map(decodeURIComponent);
    return project === projectId && isUsableId(id) ? id : null;
  } catch {
    return null; // It is not percent-encoded as it should be.
  }
}

/** The one address that `Location` names; null if it can't be read. */
function locationOf(headers: ExchangeResult['headers'], base: URL): URL | null {
  const [location, ...others] = new Set([headers['location'] ?? ''].flat());
  // A URL drops tabs and encodes what is not ASCII: another address could come of it.
  if (others.length > 0 || !/^[\x21-\x7e]+$/.test(location!) || !URL.canParse(location!, base.href)) return null;
  const url = new URL(location!, base);
  return /^https?:$/.test(url.protocol) ? url : null;
}

const MAX_TARGET = 300;
/** A page's title is near its beginning. */
const MAX_EXAMINED = 8_192;
const MAX_PAGE_TITLE = 60;

function titleOf(text: string): string {
  const title = /<title[^>]*>([^<]*)/i.exec(text)?.[1] ?? '';
  const lines = text.replace(/<(style|script)\b[^]*?<\/\1[^>]*>|<[^>]*>/gi, ' ').split(/[\r\n]/);
  const shown = [title, ...lines].map(inOneLine).find((line) => line !== '') ?? '';
  return Array.from(shown).slice(0, MAX_PAGE_TITLE).join('').trim();
}

/** Masks an echo of the key, also one that is percent-encoded, wholly or in part. */
export function withoutKey(text: string, key: string | undefined): string {
  if (!key) return text;
  const hexOf = (character: string) => character.charCodeAt(0).toString(16).padStart(2, '0');
  const echo = Array.from(key, (character) => `(?:\\u{${hexOf(character)}}|%${hexOf(character)})`).join('');
  return text.replace(new RegExp(echo, 'giu'), '***');
}

/** Without control characters and those that change how others are shown. */
export function inOneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Surrogate}\uFFFD\s]+/gu, ' ').trim();
}

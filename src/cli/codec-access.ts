/**
 * Who may use the codec server: whoever has the token of its file, as a bearer token, or in a browser by a cookie that
 * the token signs. A new token ends all sign-ins with the old one.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** A shorter token could be guessed. */
const MIN_TOKEN_CHARACTERS = 32;
/** A person signs in once a day. */
const SESSION_SECONDS = 12 * 3_600;
const COOKIE = 'agent-jobs-codec';

/** The file has no usable token; the message holds nothing of it. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError';
}

/** Reads the token with each request, so that a new one holds at once. Throws TokenFileError. */
export async function readToken(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new TokenFileError(`the token file ${path} cannot be read (${error.code})`);
  });
  const token = text.trim();
  if (token.length >= MIN_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(token)) return token;
  const rule = `one line of at least ${MIN_TOKEN_CHARACTERS} visible ASCII characters`;
  throw new TokenFileError(`the token file ${path} should hold ${rule}: openssl rand -base64 32`);
}

/** Whether an `Authorization` header holds the token. */
export function isAuthorized(header: string | undefined, token: string): boolean {
  const [, given] = /^Bearer +(\S+) *$/i.exec(header ?? '') ?? [];
  return given !== undefined && isSame(given, token);
}

/** The `Set-Cookie` header of a sign-in. A page of another site never sends the cookie. */
export function sessionCookie(token: string, { isSecure }: { isSecure: boolean }, now = Date.now()): string {
  const ends = String(Math.floor(now / 1_000) + SESSION_SECONDS);
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', `Max-Age=${SESSION_SECONDS}`];
  return [`${COOKIE}=${ends}.${signatureOf(ends, token)}`, ...attributes, ...(isSecure ? ['Secure'] : [])].join('; ');
}

/** Whether a `Cookie` header holds a sign-in that has not ended. */
export function isSignedIn(header: string | undefined, token: string, now = Date.now()): boolean {
  const cookies = (header ?? '').split('; ').filter((cookie) => cookie.startsWith(`${COOKIE}=`));
  return cookies.some((cookie) => {
    const [, ends = '', signature = ''] = /^=(\d{1,12})\.([\w-]+)$/.exec(cookie.slice(COOKIE.length)) ?? [];
    return isSame(signature, signatureOf(ends, token)) && Number(ends) * 1_000 > now;
  });
}

function signatureOf(ends: string, token: string): string {
  return createHmac('sha256', token).update(`codec server sign-in until ${ends}`).digest('base64url');
}

/** Whether two texts are the same; the hashes are of one length, and the comparison takes as long for any of them. */
export function isSame(given: string, wanted: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(given), hash(wanted));
}

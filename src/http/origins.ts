/** Which pages of a browser may call: other sites the tools of agents (CORS), and without keys the server's own. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { Problem } from './problem.js';
import type { Answer } from './request.js';

const EXPOSED = 'retry-after, www-authenticate';
const PREFLIGHT = { 'access-control-allow-methods': 'POST', 'access-control-max-age': '600' } as const;

/** Lets a listed page read each answer, errors too. Returns the answer to its preflight, which has no key, or null. */
export function admitOrigin(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  allowed: readonly string[] = [],
): Answer | null {
  if (allowed.length === 0) return null;
  const { origin = '', 'access-control-request-headers': asked = 'authorization, content-type' } = headers;
  // The answer to another page differs.
  response.setHeader('vary', 'Origin');
  if (!allowed.includes(origin)) return null;
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('access-control-expose-headers', EXPOSED);
  return method === 'OPTIONS'
    ? { status: 204, headers: { ...PREFLIGHT, 'access-control-allow-headers': asked } }
    : null;
}

/** The protocol asks for it: no page of a site that is not listed may call tools. Throws a problem 403. */
export function checkOrigin({ origin, host }: IncomingHttpHeaders, allowed: readonly string[] = []): void {
  if (origin === undefined || allowed.includes(origin)) return;
  // Each of the two may name a port that the other leaves out.
  const [scheme] = /^https?:\/\//.exec(origin) ?? [];
  const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : null);
  if (scheme !== undefined && host !== undefined && hostOf(origin) === hostOf(scheme + host)) return;
  throw new Problem(403, 'the header Origin names another site');
}

/**
 * Without keys no page of another site may get here: it names its origin, or its own host name leads here. The server's
 * own page may, at a literal address of this machine, with what no form sends. Throws a problem 403.
 */
export function checkIsLocal({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): void {
  const { host = '', origin, 'sec-fetch-site': site, 'content-type': type } = headers;
  const name = host.replace(/:\d*$/, '');
  const isLocal = isIP(name) !== 0 || ['', 'localhost', '[::1]'].includes(name);
  const isOwn = origin === `http://${host}` && (method === 'GET' || type === 'application/json');
  if (isLocal && (isOwn || origin === undefined) && site !== 'cross-site') return;
  throw new Problem(403, 'without keys this server is for this machine alone, and for no page of another site');
}

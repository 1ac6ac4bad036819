/**
 * One request of a webhook: signed by the Standard Webhooks scheme, and sent to a public address alone. That is checked
 * where the connection is made: what a name resolved to before says nothing of what it resolves to then.
 */
import { createHmac } from 'node:crypto';
import { lookup as lookupAll, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Client } from 'undici';
import { parseRetryAfter } from '../../upstream/outcome.js';

/** What to send to whom. */
interface Request {
  endpoint: { url: URL; secrets: readonly Buffer[] };
  eventId: string;
  body: string;
  /** Whether addresses that are not public are taken. */
  allowPrivate: boolean;
}

/** How the receiver answered; of its body nothing is read. */
interface Answer {
  status: number;
  /** Milliseconds; null where it says none. */
  retryAfterMs: number | null;
}

/** From look-up to status. */
const LIMIT_MS = 15_000;

/** The headers of a try: the signature is of its own time. */
function signedHeaders({ endpoint, eventId, body }: Omit<Request, 'allowPrivate'>, at = Date.now()) {
  const timestamp = String(Math.floor(at / 1_000));
  const sign = (secret: Buffer) =>
    `v1,${createHmac('sha256', secret).update(`${eventId}.${timestamp}.${body}`).digest('base64')}`;
  return {
    'content-type': 'application/json',
    'user-agent': 'agent-jobs',
    'webhook-id': eventId,
    'webhook-timestamp': timestamp,
    'webhook-signature': endpoint.secrets.map(sign).join(' '),
  };
}

/** Sends it once, follows no redirect; throws where no status came in time. */
export async function post(request: Request): Promise<Answer> {
  const { url } = request.endpoint;
  const { allowPrivate } = request;
  // Node looks an address up that is one already by no function.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!allowPrivate && isIP(host) && !isPublic(host)) throw notPublic();
  const client = new Client(url.origin, { connect: { lookup: allowPrivate ? undefined : lookupPublic } });
  try {
    const { statusCode, headers, body } = await client.request({
      method: 'POST',
      path: url.pathname + url.search,
      headers: signedHeaders(request),
      body: request.body,
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    body.on('error', () => {}).destroy();
    const text = (header: unknown) => (typeof header === 'string' ? header : null);
    const retryAfterMs = parseRetryAfter(text(headers['retry-after']), text(headers['date'])) ?? null;
    return { status: statusCode, retryAfterMs };
  } finally {
    void client.destroy().catch(() => {});
  }
}

const lookupPublic: LookupFunction = (host, options, callback) => {
  lookupAll(host, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, '');
    if (!addresses.every(({ address }) => isPublic(address))) return callback(notPublic(), '');
    if (options.all) return callback(null, addresses);
    const [{ address, family }] = addresses as [LookupAddress];
    callback(null, address, family);
  });
};

/** What is neither of this machine, of a network of somebody's own, nor reserved. */
export function isPublic(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'unicast';
}

function notPublic(): Error {
  return new Error('the address is not public (WEBHOOKS_ALLOW_PRIVATE is not set)');
}

/**
 * One request of a webhook: signed by the Standard Webhooks scheme, and sent to a public address alone. That is checked
 * where the connection is made: what a name resolved to before says nothing of what it resolves to then.
 */
import { createHmac } from 'node:crypto';
import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Client, type Dispatcher, ProxyAgent } from 'undici';
import { DAY_MS } from '../../contract/shared.js';
import { parseRetryAfter } from '../../upstream/outcome.js';

/** What to send to whom. */
interface Request {
  endpoint: { url: URL; secrets: readonly Buffer[] };
  eventId: string;
  body: string;
  way: Way;
}

/** How receivers are reached. */
export interface Way {
  /** Whether addresses that are not public are taken. */
  allowPrivate: boolean;
  /** A proxy, which then judges addresses. */
  proxy?: string | undefined;
}

/** How the receiver answered; of its body nothing is read. */
interface Answer {
  status: number;
  /** Milliseconds; null where it says none. */
  retryAfterMs: number | null;
}

/** From look-up to status. */
const LIMIT_MS = 15_000;
/** For one of several addresses; Node's own 250 ms are too short for a receiver on another continent. */
const ADDRESS_LIMIT_MS = 3_000;
/** Answers 1xx before the status; each costs CPU. */
const MAX_INFORMATIONAL = 20;

/** The headers of a try: the signature is of its own time. */
function signedHeaders({ endpoint, eventId, body }: Omit<Request, 'way'>, at = Date.now()) {
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
  const connection = open(url, request.way);
  const signal = AbortSignal.timeout(LIMIT_MS);
  // undici ends no request that waits for a connection, or for a tunnel.
  signal.addEventListener('abort', () => void connection.destroy(signal.reason as Error).catch(() => {}));
  let informational = 0;
  try {
    const { statusCode, headers, body } = await connection.request({
      origin: url.origin,
      method: 'POST',
      path: url.pathname + url.search,
      headers: signedHeaders(request),
      body: request.body,
      signal,
      onInfo: () => {
        informational += 1;
        if (informational > MAX_INFORMATIONAL) throw new Error('sends informational answers (1xx) without end');
      },
    });
    body.on('error', () => {}).destroy();
    const text = (header: unknown) => (typeof header === 'string' ? header : null);
    const [wait, date] = [text(headers['retry-after']), text(headers['date'])];
    return { status: statusCode, retryAfterMs: parseRetryAfter(wait, date, Date.now(), DAY_MS) ?? null };
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    void connection.destroy().catch(() => {});
  }
}

function open(url: URL, { allowPrivate, proxy }: Way): Dispatcher {
  if (proxy !== undefined) return new ProxyAgent(proxy);
  // Node looks an address up that is one already by no function.
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!allowPrivate && isIP(host) && !isPublic(host)) throw notPublic();
  const connect = { lookup: allowPrivate ? undefined : lookupPublic };
  return new Client(url.origin, { autoSelectFamilyAttemptTimeout: ADDRESS_LIMIT_MS, connect });
}

/** Why no answer came, in Node's and undici's own words, which hold no more of the address than its host. */
export function reasonOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError') return 'did not answer within 15 seconds';
  return code === undefined || code.startsWith('UND_') ? message : code;
}

/** Its own requests: Node's usual look-ups share four threads of the process, and a name may take its time. */
const resolver = new Resolver({ timeout: 3_000, tries: 2 });

const lookupPublic: LookupFunction = (host, { all }, callback) => {
  const answer = async () => {
    const [error, addresses] = await publicAddresses(host).then(
      (found) => [null, found] as const,
      (reason: Error) => [reason, []] as const,
    );
    const [first] = addresses;
    if (error || !first) callback(error ?? notPublic(), '');
    else if (all) callback(null, [...addresses]);
    else callback(null, first.address, first.family);
  };
  void answer();
};

/** Those of a name that are public. */
export async function publicAddresses(host: string): Promise<LookupAddress[]> {
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const [refused] = answers.filter((answer) => answer.status === 'rejected');
  if (addresses.length === 0) throw refused?.reason;
  // Behind another one the receiver may also be reached from within its own network.
  return addresses.filter(isPublic).map((address) => ({ address, family: isIP(address) }));
}

/** What IPv6 has given out to the public; a machine of Azure's own, with a public address, is none of it. */
const [PUBLIC_IPV6, AZURE_HOST] = [ipaddr.IPv6.parseCIDR('2000::/3'), '168.63.129.16'];
/** A network of IPv6 alone reaches IPv4 by these: the last four bytes are the address. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** What is neither of this machine, of a network of somebody's own, nor reserved. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const ip = ipaddr.process(address);
  if (ip instanceof ipaddr.IPv4) return ip.range() === 'unicast' && ip.toString() !== AZURE_HOST;
  if (ip.match(NAT64)) return isPublic(ip.toByteArray().slice(-4).join('.'));
  return ip.range() === 'unicast' && ip.match(PUBLIC_IPV6);
}

function notPublic(): Error {
  return new Error('the address is not public (WEBHOOKS_ALLOW_PRIVATE is not set)');
}

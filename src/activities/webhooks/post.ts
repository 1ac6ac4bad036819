/**
 * One request of a webhook: signed by the Standard Webhooks scheme, and sent to a public address alone. The connection
 * itself checks that, because a name may resolve to another address each time.
 */
import { createHmac } from 'node:crypto';
import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { Client, type Dispatcher, ProxyAgent } from 'undici';
import { retryAfterOf } from '../../upstream/retry-after.js';

/** How receivers are reached. */
export interface Way {
  /** Whether addresses that are not public are taken. */
  allowPrivate: boolean;
  /** A proxy, which then judges addresses. */
  proxy?: string | undefined;
}

interface Request {
  endpoint: { url: URL; secrets: readonly Buffer[] };
  eventId: string;
  body: string;
  way: Way;
}

/** Limits a try from the look-up to the status. */
const TRY_LIMIT_MS = 15_000;
/** Limits one of several addresses; Node's own 250 ms are too short for a receiver on another continent. */
const ADDRESS_LIMIT_MS = 3_000;

/** The headers of a try, signed with its own time. */
function signedHeaders({ endpoint, eventId, body }: Omit<Request, 'way'>) {
  const timestamp = String(Math.floor(Date.now() / 1_000));
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

/** Sends the event once, follows no redirect, and reads no body. Throws if no status came in time. */
export async function post(request: Request): Promise<{ status: number; retryAfterMs: number | null }> {
  const { url } = request.endpoint;
  const connection = open(url, request.way);
  const signal = AbortSignal.timeout(TRY_LIMIT_MS);
  // undici ends no request that waits for a connection, or for a tunnel.
  signal.addEventListener('abort', () => void connection.destroy(signal.reason as Error).catch(() => {}));
  try {
    const { statusCode, headers, body } = await connection.request({
      origin: url.origin,
      method: 'POST',
      path: url.pathname + url.search,
      signal,
      headers: signedHeaders(request),
      body: request.body,
    });
    body.on('error', () => {}).destroy();
    return { status: statusCode, retryAfterMs: retryAfterOf(headers, statusCode === 429) ?? null };
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    void connection.destroy().catch(() => {});
  }
}

function open(url: URL, { allowPrivate, proxy }: Way): Dispatcher {
  if (proxy !== undefined) return new ProxyAgent(proxy);
  // Node calls no look-up for an address.
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

/** Node's usual look-ups share four threads of the process, and a name may take long. This one has its own requests. */
const resolver = new Resolver({ timeout: 3_000, tries: 2 });

const lookupPublic: LookupFunction = (host, { all }, callback) => {
  const answer = async () => {
    const found = await publicAddresses(host).catch((error: Error) => error);
    if (found instanceof Error) callback(found, '');
    else if (all) callback(null, found);
    else callback(null, found[0]!.address, found[0]!.family);
  };
  void answer();
};

/** The public addresses of a name. Throws if it has none. */
export async function publicAddresses(host: string): Promise<LookupAddress[]> {
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const [failed] = answers.filter((answer) => answer.status === 'rejected');
  if (addresses.length === 0) throw failed?.reason;
  const taken = addresses.filter(isPublic);
  if (taken.length === 0) throw notPublic();
  return taken.map((address) => ({ address, family: isIP(address) }));
}

/** All public addresses of IPv6, but those of NAT64: their last four bytes are an address of IPv4. */
const [PUBLIC_IPV6, NAT64] = [ipaddr.IPv6.parseCIDR('2000::/3'), ipaddr.IPv6.parseCIDR('64:ff9b::/96')];
/** A public address at which each machine of Azure reaches its host. */
const AZURE_HOST = '168.63.129.16';

/** Whether an address is neither of this machine, nor of a private network, nor reserved. */
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

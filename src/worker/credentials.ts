/** When the credentials towards Temporal are read again, and which of them are taken into use. */
import { X509Certificate } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Worker } from '@temporalio/worker';
import type { Metrics } from '../activities/metrics.js';
import type { TemporalSettings } from '../config.js';
import { connectOnce, credentialsOf, messageOf, withCredentials, type Credentials } from './connection.js';
import type { Logger } from './logging.js';
import type { TemporalLink } from './temporal-link.js';

/** Reads a few small files: often enough for a key that is revoked soon after its change. */
const LOOK_INTERVAL_MS = 5_000;
const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** What the watch reads, changes and tells. */
export interface CredentialsOptions {
  /** As the worker connected. */
  settings: TemporalSettings;
  /** The settings as their files are now; throws where they are wrong. */
  read: () => TemporalSettings;
  link: TemporalLink;
  workers: readonly Worker[];
  metrics: Pick<Metrics, 'certificateLasts' | 'credentialsPending'>;
  log: Logger;
}

/** Takes credentials into use within seconds of their change, once Temporal accepts them; returns what stops that. */
export function watchCredentials(options: CredentialsOptions): () => void {
  const watch = new CredentialsWatch(options);
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const look = async () => {
    await watch.look(() => isStopped);
    if (!isStopped) timer = setTimeout(() => void look(), LOOK_INTERVAL_MS).unref();
  };
  void look();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

class CredentialsWatch {
  readonly #options: CredentialsOptions;
  #used: Credentials;
  #problem: string | undefined;

  constructor(options: CredentialsOptions) {
    this.#options = options;
    this.#used = credentialsOf(options.settings);
    recordCertificates(this.#used, options.metrics);
  }

  /** Never rejects: the credentials in use stay, and the next look tries again. */
  async look(isStopped: () => boolean): Promise<void> {
    try {
      const read = credentialsOf(this.#options.read());
      if (!isDeepStrictEqual(read, this.#used)) await this.#take(read, isStopped);
      this.#tell(undefined);
    } catch (error) {
      if (!isStopped()) this.#tell(messageOf(error));
    }
  }

  async #take(credentials: Credentials, isStopped: () => boolean): Promise<void> {
    const { settings, link, workers, metrics, log } = this.#options;
    const next = await connectOnce(withCredentials(settings, credentials));
    if (isStopped()) return next.close();
    await link.replace(next, workers);
    this.#used = credentials;
    recordCertificates(credentials, metrics);
    log.info(expiryOf(credentials), 'New credentials towards Temporal are in use');
  }

  /** A line for each problem, not for each look. */
  #tell(problem: string | undefined): void {
    this.#options.metrics.credentialsPending(problem !== undefined);
    if (problem !== undefined && problem !== this.#problem)
      this.#options.log.warn({ reason: problem }, 'New credentials towards Temporal are not taken: the last ones stay');
    this.#problem = problem;
  }
}

interface Lifetime {
  from: number;
  to: number;
}

/** A chain ends with its first certificate; an authority that is over harms nobody while another one lasts. */
function lifetimesOf({ tls }: Credentials): { client?: Lifetime; authority?: Lifetime } {
  if (typeof tls !== 'object' || tls === null) return {};
  const byEnd = (pem: Uint8Array | undefined) => lifetimesIn(pem).toSorted((a, b) => a.to - b.to);
  const [client, authority] = [byEnd(tls.clientCertPair?.crt).at(0), byEnd(tls.serverRootCACertificate).at(-1)];
  return { ...(client && { client }), ...(authority && { authority }) };
}

function lifetimesIn(pem: Uint8Array | undefined): Lifetime[] {
  const texts =
    Buffer.from(pem ?? [])
      .toString()
      .match(PEM) ?? [];
  return texts.map((text) => {
    const { validFrom, validTo } = new X509Certificate(text);
    return { from: Date.parse(validFrom) / 1_000, to: Date.parse(validTo) / 1_000 };
  });
}

function recordCertificates(credentials: Credentials, metrics: CredentialsOptions['metrics']): void {
  const { client, authority } = lifetimesOf(credentials);
  if (client) metrics.certificateLasts('client', client.from, client.to);
  if (authority) metrics.certificateLasts('authority', authority.from, authority.to);
}

function expiryOf(credentials: Credentials): { certificateExpires?: string } {
  const { client } = lifetimesOf(credentials);
  return client ? { certificateExpires: new Date(client.to * 1_000).toISOString() } : {};
}

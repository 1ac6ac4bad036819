/** A TLS front of a Temporal server that wants a client certificate of an authority it trusts, or an API key. */
import { connect, createSecureServer, type ClientHttp2Session, type Http2Session } from 'node:http2';
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Identity } from './certificates.js';

const UNAUTHENTICATED = '16';

export interface TlsFrontOptions {
  /** `host:port` of the server, in clear. */
  address: string;
  identity: Identity;
  /** Authorities of the clients' certificates. */
  trusted: string[];
  /** Else a free one. */
  port?: number;
}

export class TlsFront {
  readonly #options: TlsFrontOptions;
  readonly #server;
  #upstream: ClientHttp2Session;
  readonly #sessions = new Set<Http2Session>();
  #apiKeys: string[] = [];

  private constructor(options: TlsFrontOptions) {
    this.#options = options;
    this.#upstream = this.#connect();
    this.#server = createSecureServer(this.#settings(options.trusted));
    this.#server.on('session', (session) => this.#opened(session));
    this.#server.on('stream', (stream, headers) => this.#forward(stream, headers));
    this.#server.on('tlsClientError', () => {});
  }

  static async start(options: TlsFrontOptions): Promise<TlsFront> {
    const front = new TlsFront(options);
    await new Promise<void>((resolve) => front.#server.listen(options.port ?? 0, '127.0.0.1', resolve));
    return front;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** From now on new connections need a certificate of one of these. */
  trust(trusted: string[]): void {
    this.#server.setSecureContext(this.#settings(trusted));
  }

  /** From now on each call needs one of these keys. */
  wantApiKey(...keys: string[]): void {
    this.#apiKeys = keys.map((key) => `Bearer ${key}`);
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) session.destroy();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#upstream.destroy();
    await closed;
  }

  /** The server takes no new calls on a connection after some minutes. */
  #connect(): ClientHttp2Session {
    const session = connect(`http://${this.#options.address}`);
    session.on('error', () => {});
    const renew = () => {
      if (this.#upstream === session && this.#server.listening) this.#upstream = this.#connect();
    };
    session.on('goaway', renew);
    session.on('close', renew);
    return session;
  }

  #settings(ca: string[]) {
    const { key, cert } = this.#options.identity;
    return { key, cert, ca, requestCert: true, rejectUnauthorized: ca.length > 0 };
  }

  #opened(session: Http2Session): void {
    this.#sessions.add(session);
    session.on('error', () => {});
    session.on('close', () => this.#sessions.delete(session));
  }

  #forward(stream: ServerHttp2Stream, { ':authority': _, ...headers }: IncomingHttpHeaders): void {
    stream.on('error', () => {});
    if (this.#apiKeys.length > 0 && !this.#apiKeys.includes(headers.authorization ?? '')) {
      const refused = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': UNAUTHENTICATED };
      return stream.respond(refused, { endStream: true });
    }
    const request = this.#upstream.request(headers);
    request.on('error', () => stream.destroy());
    let trailers: IncomingHttpHeaders = {};
    request.on('trailers', (told) => (trailers = told));
    request.on('response', (told) => {
      if ('grpc-status' in told) return stream.respond(told, { endStream: true });
      stream.respond(told, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      request.pipe(stream);
    });
    stream.on('close', () => request.close());
    stream.pipe(request);
  }
}

import type { Socket } from 'node:net';
import { buildConnector, Client, EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici';

/** Proxies as the standard variables name them, given by the settings and never read from the environment here. */
export interface ProxySettings {
  httpProxy?: string;
  httpsProxy?: string;
  noProxy?: string;
}

export interface ConnectionOptions {
  proxy: ProxySettings | undefined;
  connectTimeoutMs: number;
  /** Whether a further connection is made where the first is gone. */
  mayReconnect: boolean;
}

/**
 * One connection, through the proxy where there is one, for one request at a time. undici's own pool would connect again after an abort,
 * on behalf of the request that was aborted.
 */
export class Connection {
  readonly dispatcher: Dispatcher;
  /** The way to the upstream, TLS and tunnel included, once it stands. */
  socket: Socket | undefined;
  readonly #opened = new Set<Socket>();
  readonly #mayReconnect: boolean;
  #isConnected = false;

  constructor({ proxy = {}, connectTimeoutMs, mayReconnect }: ConnectionOptions) {
    this.#mayReconnect = mayReconnect;
    const timeout = { timeout: connectTimeoutMs };
    const connect = this.#tracked(buildConnector(timeout));
    this.dispatcher = new EnvHttpProxyAgent({
      // An empty string keeps undici from reading the environment itself.
      httpProxy: proxy.httpProxy ?? '',
      httpsProxy: proxy.httpsProxy ?? '',
      noProxy: proxy.noProxy ?? '',
      // The caller's one time limit covers the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect,
      requestTls: timeout,
      factory: (origin, options) => {
        const given = options as Client.Options;
        return new Client(origin, { ...given, connect: this.#watched(given.connect as buildConnector.connector) });
      },
      clientFactory: (origin) => new Pool(origin, { connect }),
    });
  }

  /** Closes whatever is open or being opened. */
  destroy(): void {
    void this.dispatcher.destroy();
    for (const socket of this.#opened) socket.destroy();
  }

  /** Knows each socket from its first moment, so that one that hangs while connecting can be closed too. */
  #tracked(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      const socket = connect(options, callback) as unknown as Socket;
      this.#opened.add(socket);
      socket.once('close', () => this.#opened.delete(socket));
      return socket;
    };
  }

  #watched(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      if (this.#isConnected && !this.#mayReconnect) return callback(new Error('one connection only'), null);
      this.#isConnected = true;
      connect(options, (...result) => {
        this.socket = result[1] ?? undefined;
        callback(...result);
      });
    };
  }
}

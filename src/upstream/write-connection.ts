import type { Socket } from 'node:net';
import { buildConnector, Client, EnvHttpProxyAgent, Pool, type Dispatcher } from 'undici';

/** Proxies as the standard variables name them, given by the settings and never read from the environment here. */
export interface ProxySettings {
  httpProxy?: string;
  httpsProxy?: string;
  noProxy?: string;
}

/** An empty string keeps undici from reading the environment itself. */
export function proxyOptions(proxy: ProxySettings = {}): Required<ProxySettings> {
  return { httpProxy: proxy.httpProxy ?? '', httpsProxy: proxy.httpsProxy ?? '', noProxy: proxy.noProxy ?? '' };
}

/** One fresh connection for one write, made through the proxy where there is one; never a second connection. */
export class WriteConnection {
  readonly dispatcher: Dispatcher;
  /** The connection to the upstream, TLS and tunnel included, once it stands. */
  socket: Socket | undefined;
  readonly #opened: Socket[] = [];
  #isUsed = false;

  constructor(proxy: ProxySettings | undefined, connectTimeoutMs: number) {
    const timeout = { timeout: connectTimeoutMs };
    const connect = this.#tracked(buildConnector(timeout));
    this.dispatcher = new EnvHttpProxyAgent({
      ...proxyOptions(proxy),
      ...NO_TIME_LIMITS,
      connect,
      requestTls: timeout,
      factory: (origin, options) => {
        const given = options as Client.Options;
        return new Client(origin, { ...given, connect: this.#once(given.connect as buildConnector.connector) });
      },
      clientFactory: (origin) => new Pool(origin, { connect }),
    });
  }

  /** Closes whatever is open or being opened. */
  destroy(): void {
    void this.dispatcher.destroy();
    for (const socket of this.#opened) socket.destroy();
  }

  /** Remembers each socket from its first moment, so that one that hangs while connecting can be closed too. */
  #tracked(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      const socket = connect(options, callback) as unknown as Socket;
      this.#opened.push(socket);
      return socket;
    };
  }

  #once(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      if (this.#isUsed) return callback(new Error('a write has one connection'), null);
      this.#isUsed = true;
      connect(options, (...result) => {
        this.socket = result[1] ?? undefined;
        callback(...result);
      });
    };
  }
}

/** The caller's one time limit covers the whole exchange. */
export const NO_TIME_LIMITS = { headersTimeout: 0, bodyTimeout: 0 } as const;

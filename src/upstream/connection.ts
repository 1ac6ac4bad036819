import { BlockList, connect as connectTcp, isIP, type Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';

/** Proxies as the standard variables name them, given by the settings and never read from the environment here. */
export interface ProxySettings {
  httpProxy?: string;
  httpsProxy?: string;
  noProxy?: string;
}

/**
 * What of the settings is for this upstream. `HTTP_PROXY` is for http alone, undici would take it for https too; and of
 * `NO_PROXY` it reads no ranges, such as `10.0.0.0/8`.
 */
export function proxyFor({ baseUrl, proxy = {} }: { baseUrl: string; proxy?: ProxySettings }): ProxySettings {
  const { protocol, hostname } = new URL(baseUrl);
  if (isWithin(hostname.replace(/^\[|\]$/g, ''), proxy.noProxy ?? '')) return {};
  if (protocol !== 'https:') return proxy;
  const { httpProxy: _, ...httpsAlone } = proxy;
  return httpsAlone;
}

/** Whether a host is an address of one of the ranges in a list; a single address is a range, too. */
function isWithin(host: string, list: string): boolean {
  const version = isIP(host);
  if (version === 0) return false;
  const [family, bits] = version === 6 ? (['ipv6', 128] as const) : (['ipv4', 32] as const);
  const ranges = new BlockList();
  for (const entry of list.split(/[,\s]+/)) {
    const [address = '', prefix = String(bits)] = entry.split('/');
    const length = Number.parseInt(prefix);
    if (isIP(address) === version && length <= bits) ranges.addSubnet(address, length, family);
  }
  return ranges.check(host, family);
}

interface ConnectionOptions {
  proxy: ProxySettings | undefined;
  /** For one write: no second connection is made, and the one is reset wherever it ends before `close`. */
  isForWrite: boolean;
}

/** The caller's one time limit covers connecting too, and destroys what has not connected by then. */
const NO_TIMEOUT = { timeout: 0 };

/**
 * One connection, through the proxy where there is one, for one request at a time. undici's own pool would connect
 * again after an abort, on behalf of the request that was aborted.
 */
export class Connection {
  readonly dispatcher: Dispatcher;
  /** The way to the upstream, TLS and tunnel included, once it stands. */
  socket: Socket | undefined;
  /**
   * The TCP sockets under it, each from its first moment, so that one that hangs while connecting can be closed too.
   */
  readonly #opened = new Set<Socket>();
  readonly #isForWrite: boolean;
  readonly #connector = buildConnector(NO_TIMEOUT);
  #isConnected = false;

  constructor({ proxy = {}, isForWrite }: ConnectionOptions) {
    this.#isForWrite = isForWrite;
    this.dispatcher = new EnvHttpProxyAgent({
      // An empty string keeps undici from reading the environment itself.
      httpProxy: proxy.httpProxy ?? '',
      httpsProxy: proxy.httpsProxy ?? '',
      noProxy: proxy.noProxy ?? '',
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: this.#connect,
      requestTls: NO_TIMEOUT,
      factory: (origin, options) => {
        const given = options as Client.Options;
        return new Client(origin, { ...given, connect: this.#watched(given.connect as buildConnector.connector) });
      },
      clientFactory: (origin) => new Pool(origin, { connect: this.#connect }),
    });
  }

  /**
   * Ends whatever is open or being opened: that of a write with a reset, which takes back what is not delivered yet.
   */
  destroy(): void {
    // Without an error undici takes a response of no declared length for complete, and throws where nobody can catch.
    for (const socket of this.#opened) socket.destroy(new Error('ended'));
    void this.dispatcher.destroy();
  }

  /** Ends it as it should be: its one request is answered, and well. */
  close(): void {
    for (const socket of this.#opened) closeWhenDestroyed(socket);
    this.destroy();
  }

  /** TLS is laid over a TCP socket of our own: one that TLS has made can't be reset. */
  readonly #connect: buildConnector.connector = (options, callback) => {
    if (options.protocol !== 'https:') return this.#track(this.#connector(options, callback) as unknown as Socket);
    const socket = connectTcp({ host: options.hostname, port: Number(options.port) || 443, noDelay: true });
    this.#track(socket);
    const onError = (error: Error) => callback(error, null);
    socket.once('error', onError);
    socket.once('connect', () => {
      socket.off('error', onError);
      this.#connector({ ...options, httpSocket: socket }, callback);
    });
  };

  #track(socket: Socket): void {
    this.#opened.add(socket);
    if (this.#isForWrite) resetWhenDestroyed(socket);
    socket.on('error', () => {}); // Whoever uses it hears of it; a reset that comes too late is nobody's concern.
    socket.once('close', () => this.#opened.delete(socket));
  }

  #watched(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      if (this.#isConnected && this.#isForWrite) return callback(new Error('one connection only'), null);
      this.#isConnected = true;
      connect(options, (...result) => {
        const [, socket] = result;
        this.socket = socket ?? undefined;
        if (socket && this.#isForWrite) neverShutDown(socket);
        callback(...result);
      });
    };
  }
}

/**
 * Ends a TCP connection with a reset (RST), as `SO_LINGER` with 0 does: from now on whatever destroys the TCP socket,
 * undici and TLS on top of it included, resets the connection. A closed socket leaves its send buffer to the kernel,
 * which delivers it for up to two minutes, after the write was judged and even after this process has ended.
 */
function resetWhenDestroyed(socket: Socket): void {
  neverShutDown(socket);
  socket.destroy = (error) => {
    // While connecting, nothing was sent.
    if (!socket.destroyed && !socket.connecting) {
      socket.destroy = () => socket; // It would destroy it without the error, or only once all is written.
      socket.resetAndDestroy();
    }
    closeWhenDestroyed(socket);
    return socket.destroy(error);
  };
}

/** Takes `resetWhenDestroyed` back: the connection has done its work and may close. */
function closeWhenDestroyed(socket: Socket): void {
  Reflect.deleteProperty(socket, 'destroy');
}

/** Keeps a socket (TLS included) from sending FIN by a shutdown: libuv refuses a reset while one is under way. */
function neverShutDown(socket: Socket): void {
  socket._final = (done) => done();
}

/** Which proxy an upstream is reached through, and the one connection of a write, which ends with a reset. */
import { BlockList, connect as connectTcp, isIP, type Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import { closeWhenDestroyed, neverShutDown, resetWhenDestroyed } from './private.js';

/** Proxies as the standard variables name them. An empty string keeps undici from reading the environment itself. */
export interface ProxySettings {
  httpProxy: string;
  httpsProxy: string;
  noProxy: string;
}

/**
 * The proxies that this upstream is reached through. `HTTP_PROXY` is for http alone, undici would take it for https
 * too; and undici reads no ranges in `NO_PROXY`, such as `10.0.0.0/8`.
 */
export function proxyFor(baseUrl: string, settings: Partial<ProxySettings> = {}): ProxySettings {
  const { httpProxy = '', httpsProxy = '', noProxy = '' } = settings;
  const { protocol, hostname } = new URL(baseUrl);
  if (isWithin(hostname.replace(/^\[|\]$/g, ''), noProxy)) return { httpProxy: '', httpsProxy: '', noProxy: '' };
  return { httpProxy: protocol === 'https:' ? '' : httpProxy, httpsProxy, noProxy };
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

/** The caller's one time limit covers connecting too, and destroys what has not connected by then. */
const NO_TIMEOUT = { timeout: 0 };

/**
 * Connects once for each request. undici's own client connects again after a loss: a write could be sent twice, and a
 * proxy that closes each tunnel would be called for ever.
 */
export class OnceClient extends Client {
  #mayConnect = false;

  /** `connect` is a function, as pools and agents give it. */
  constructor(origin: string | URL, { connect, ...options }: Client.Options) {
    super(origin, {
      ...options,
      connect: (to, callback) => {
        if (!this.#mayConnect) return callback(Object.assign(new Error('lost'), { code: 'ECONNRESET' }), null);
        this.#mayConnect = false;
        (connect as buildConnector.connector)(to, callback);
      },
    });
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#mayConnect = true;
    return super.dispatch(options, handler);
  }
}

/**
 * The one connection of one write, through the proxy if there is one. It is reset if it ends before `mayClose`: a reset
 * takes back what is not delivered yet.
 */
export class WriteConnection {
  readonly dispatcher: Dispatcher;
  /**
   * The TCP sockets under it, each from its first moment, so that one that hangs while connecting can be closed too.
   */
  readonly #opened = new Set<Socket>();
  readonly #onSocket: (socket: Socket) => void;
  readonly #connector = buildConnector(NO_TIMEOUT);

  /** `onSocket` gets the socket to the upstream, TLS and tunnel included, once it is connected. */
  constructor(proxy: ProxySettings, onSocket: (socket: Socket) => void) {
    this.#onSocket = onSocket;
    this.dispatcher = new EnvHttpProxyAgent({
      ...proxy,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: this.#connect,
      requestTls: NO_TIMEOUT,
      factory: (origin, options) => {
        const given = options as Client.Options;
        return new OnceClient(origin, { ...given, connect: this.#noted(given.connect as buildConnector.connector) });
      },
      clientFactory: (origin) => new Pool(origin, { connect: this.#connect }),
    });
  }

  /** From now on it is closed, not reset: its request is answered, and well. */
  mayClose(): void {
    for (const socket of this.#opened) closeWhenDestroyed(socket);
  }

  /** Ends what is open or being opened. */
  destroy(): void {
    for (const socket of this.#opened) socket.destroy();
    void this.dispatcher.destroy();
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
    resetWhenDestroyed(socket);
    socket.on('error', () => {}); // Its user gets the error too. A reset that comes after the end is no concern.
    socket.once('close', () => this.#opened.delete(socket));
  }

  #noted(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) =>
      connect(options, (...result) => {
        const [, socket] = result;
        if (socket) neverShutDown(socket);
        if (socket) this.#onSocket(socket);
        callback(...result);
      });
  }
}

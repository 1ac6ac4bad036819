/** How our client connects to Temporal: address, TLS, proxy, and the time limit of the first connection. */
import { Client, Connection } from '@temporalio/client';
import type { ClientInterceptors, ConnectionOptions } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { RequestRetries } from '../temporal/grpc.js';
import { unlessAborted } from './concurrently.js';
import { checkTimeout, endWaits, MAX_TIMER_MS } from './temporal-call.js';
import { isUnimplemented, toConnectError } from './temporal-errors.js';

/** A caller learns within seconds that the server is not reachable. */
const CONNECT_TIMEOUT_MS = 4_000;
const DEFAULT_PORT = 7233;

/** An HTTP proxy that leads to Temporal; with credentials if it wants them. */
interface Proxy {
  /** `host:port`. */
  targetHost: string;
  basicAuth?: { username: string; password: string };
}

interface ConnectionSettings {
  /** `host:port`. */
  address: string;
  namespace: string;
  /** TLS, API key and the like; default: none. */
  connectionOptions?: Omit<ConnectionOptions, 'address' | 'interceptors' | 'connectTimeout'> & { proxy?: Proxy };
  /** Encrypts what is sent; undefined: nothing does. */
  dataConverter?: DataConverter | null | undefined;
  interceptors?: ClientInterceptors | null | undefined;
  /** Ends the attempt with its reason. */
  signal?: AbortSignal | null | undefined;
  /** Default 4 seconds. */
  timeoutMs?: number | null | undefined;
}

interface ConnectedClient {
  client: Client;
  /** Waits, for seconds at most, until no request is about to be sent again; then closes the connection. */
  close: () => Promise<void>;
}

/** Keeps gRPC from asking the environment's HTTP proxy for a server on this very machine. */
export function channelArgsFor(address: string): NonNullable<ConnectionOptions['channelArgs']> {
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(address) ? { 'grpc.enable_http_proxy': 0 } : {};
}

/** The SDK's client takes no proxy. These are what gRPC makes of the one that the environment's `grpc_proxy` names. */
function throughProxy(address: string, { targetHost, basicAuth }: Proxy): Partial<ConnectionOptions> {
  const server = /:\d+$/.test(address) ? address : `${address}:${DEFAULT_PORT}`;
  return {
    address: targetHost,
    channelArgs: {
      'grpc.enable_http_proxy': 0,
      'grpc.default_authority': server,
      'grpc.http_connect_target': `dns:${server}`,
      ...(basicAuth && { 'grpc.http_connect_creds': `${basicAuth.username}:${basicAuth.password}` }),
    },
  };
}

/** Else another channel of this process to the same server, which has failed, says how long this one waits. */
const OWN_ATTEMPTS = { 'grpc.use_local_subchannel_pool': 1 };

/** Connects to Temporal; throws, within seconds, TemporalCallError. Reads no environment: its callers do. */
export async function connectClient(settings: ConnectionSettings): Promise<ConnectedClient> {
  const { address, namespace, connectionOptions = {}, dataConverter, interceptors, signal, timeoutMs } = settings;
  const limitMs = Math.min(checkTimeout(timeoutMs ?? CONNECT_TIMEOUT_MS), MAX_TIMER_MS);
  signal?.throwIfAborted();
  const retries = new RequestRetries();
  const { proxy, ...options } = connectionOptions;
  const way = proxy ? throughProxy(address, proxy) : { address, channelArgs: channelArgsFor(address) };
  const connection = Connection.lazy({
    ...options,
    ...way,
    channelArgs: { ...way.channelArgs, ...OWN_ATTEMPTS },
    interceptors: [retries.interceptor],
    connectTimeout: limitMs,
  });
  const disconnect = async () => {
    await retries.end();
    await connection.close();
  };
  try {
    const tooLate = AbortSignal.timeout(limitMs);
    // Who gives a limit has the patience to wait for a server that is about to start.
    const connecting = timeoutMs == null ? reach(connection, Date.now() + limitMs) : connection.ensureConnected();
    await unlessAborted(connecting, signal ? AbortSignal.any([signal, tooLate]) : tooLate);
    signal?.throwIfAborted();
    retries.outlastRestarts();
    const own = { ...(dataConverter && { dataConverter }), ...(interceptors && { interceptors }) };
    const client = new Client({ connection, namespace, ...own });
    return {
      client,
      close: async () => {
        endWaits(client);
        await disconnect();
      },
    };
  } catch (error) {
    // Not awaited: it may take seconds, and the caller has waited.
    disconnect().catch(() => {});
    signal?.throwIfAborted();
    throw toConnectError({ address, namespace }, error);
  }
}

/** The SDK's own way waits until its time is over, also if the host refuses the connection at once. */
async function reach(connection: Connection, deadline: number): Promise<void> {
  try {
    await connection.withDeadline(deadline, () => connection.workflowService.getSystemInfo({}));
  } catch (error) {
    // An old server, which is reached.
    if (!isUnimplemented(error)) throw error;
  }
}

import { Client, Connection, type ConnectionOptions } from '@temporalio/client';
import { RequestRetries } from '../temporal/request-retries.js';
import { toConnectError } from './temporal-errors.js';

/** A caller learns within seconds that the server is not reachable. */
const CONNECT_TIMEOUT = '4 seconds';

/** How to reach Temporal, and where the workers of the jobs listen. */
interface ConnectionSettings {
  /** `host:port`. */
  address: string;
  namespace: string;
  taskQueue: string;
  /** TLS, API key and the like. */
  connectionOptions: Omit<ConnectionOptions, 'address' | 'interceptors' | 'connectTimeout'>;
}

/** A client over a connection of its own. */
interface ConnectedClient {
  client: Client;
  taskQueue: string;
  /** Waits, for seconds at most, until no request is about to be sent again; then closes the connection. */
  close: () => Promise<void>;
}

/** Keeps gRPC from asking the environment's HTTP proxy for a server on this very machine. */
export function channelArgsFor(address: string): NonNullable<ConnectionOptions['channelArgs']> {
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(address) ? { 'grpc.enable_http_proxy': 0 } : {};
}

/** Connects to Temporal; throws, within seconds, TemporalCallError. Reads no environment: its callers do. */
export async function connectClient(settings: ConnectionSettings): Promise<ConnectedClient> {
  const { address, namespace, taskQueue, connectionOptions } = settings;
  const retries = new RequestRetries();
  try {
    const connection = await Connection.connect({
      channelArgs: channelArgsFor(address),
      ...connectionOptions,
      address,
      interceptors: [retries.interceptor],
      connectTimeout: CONNECT_TIMEOUT,
    });
    return {
      client: new Client({ connection, namespace }),
      taskQueue,
      close: async () => {
        await retries.end();
        await connection.close();
      },
    };
  } catch (error) {
    throw toConnectError({ address, namespace }, error);
  }
}

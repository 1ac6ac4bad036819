import { Client, Connection, type ConnectionOptions } from '@temporalio/client';
import { readClientConfig } from '../config.js';
import { TemporalCallError, TemporalUnavailableError } from './errors.js';
import { RequestRetries } from '../temporal/request-retries.js';
import { isRefusal } from './temporal-call.js';

/** A dead server should be told within seconds. */
const CONNECT_TIMEOUT = '4 seconds';

/** Each one overrides what the environment says. */
export interface ConnectSettings {
  /** `host:port`; else `TEMPORAL_ADDRESS` or the profile. */
  address?: string | undefined;
  /** Else `TEMPORAL_NAMESPACE` or the profile. */
  namespace?: string | undefined;
  /** Where the worker listens; else `AGENT_JOBS_TASK_QUEUE`. */
  taskQueue?: string | undefined;
}

export interface ConnectedClient {
  client: Client;
  taskQueue: string;
  close: () => Promise<void>;
}

/** The environment's HTTP proxy would be asked for a server on this very machine, too. */
export function channelArgsFor(address: string): NonNullable<ConnectionOptions['channelArgs']> {
  return /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(address) ? { 'grpc.enable_http_proxy': 0 } : {};
}

/** Connects as the standard `TEMPORAL_*` settings say; throws ConfigError or, within seconds, TemporalCallError. */
export async function connectClient(settings: ConnectSettings): Promise<ConnectedClient> {
  const { temporal, taskQueue } = readClientConfig();
  const address = settings.address ?? temporal.address;
  const namespace = settings.namespace ?? temporal.namespace;
  const retries = new RequestRetries();
  try {
    const options = { ...(temporal.connectionOptions as ConnectionOptions), address };
    const interceptors = [retries.interceptor];
    const connection = await Connection.connect({
      channelArgs: channelArgsFor(address),
      ...options,
      interceptors,
      connectTimeout: CONNECT_TIMEOUT,
    });
    return {
      client: new Client({ connection, namespace }),
      taskQueue: settings.taskQueue ?? taskQueue,
      close: async () => {
        await retries.end();
        await connection.close();
      },
    };
  } catch (cause) {
    const text = `can not reach Temporal at ${address}, namespace "${namespace}"`;
    const Kind = isRefusal(cause) ? TemporalCallError : TemporalUnavailableError;
    throw new Kind(`${text}: check that it runs, TEMPORAL_ADDRESS, and TLS or the API key`, { cause });
  }
}

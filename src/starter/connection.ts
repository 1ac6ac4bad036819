import { Client, Connection } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { TemporalCallError } from './errors.js';

/** A dead server should be told within seconds. */
const CONNECT_TIMEOUT = '4 seconds';

/** Each one overrides what the environment (`TEMPORAL_*`) or its profile says. */
export interface TemporalSettings {
  /** `host:port`. */
  address?: string | undefined;
  namespace?: string | undefined;
}

/** Connects to Temporal as the standard `TEMPORAL_*` settings say; throws TemporalCallError within seconds. */
export async function connectClient({ address, namespace }: TemporalSettings = {}): Promise<Client> {
  const config = loadClientConnectConfig();
  const options = { ...config.connectionOptions, ...(address === undefined ? {} : { address }) };
  const space = namespace ?? config.namespace ?? 'default';
  try {
    const connection = await Connection.connect({ ...options, connectTimeout: CONNECT_TIMEOUT });
    return new Client({ connection, namespace: space });
  } catch (cause) {
    const where = `${options.address ?? 'localhost:7233'}, namespace "${space}"`;
    const text = `can not reach Temporal at ${where}: check that it runs, TEMPORAL_ADDRESS, and TLS or the API key`;
    throw new TemporalCallError(text, { cause });
  }
}

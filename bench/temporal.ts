/** The Temporal server of a run: the dev server. */
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { findDevServer } from '../src/local/find-dev-server.js';
import { startDevServer } from '../src/local/dev-server.js';
import { freePort } from '../src/local/child-process.js';
import { ensureSearchAttributes } from '../src/temporal/search-attributes.js';

export interface BenchTemporal {
  address: string;
  namespace: string;
  client: Client;
  pids: number[];
  /** Billable actions of the namespace so far, as the server itself counts them. */
  actions(): Promise<number>;
  stop(): Promise<void>;
}

/**
 * The dev server alone reads the names of the search attributes from its database at each use, so that a test need not
 * wait for those that it has just added. No other server does so by default; these are there from the start.
 */
const AS_A_RELEASE_SERVER = { 'system.forceSearchAttributesCacheRefreshOnRead': 'false' };

/** Starts the dev server on a database file in the folder. */
export async function startTemporal(folder: string): Promise<BenchTemporal> {
  const metricsPort = await freePort();
  const server = await startDevServer({
    program: await findDevServer({ env: process.env }),
    logFile: join(folder, 'temporal.log'),
    databaseFile: join(folder, 'temporal.db'),
    metricsPort,
    dynamicConfig: AS_A_RELEASE_SERVER,
  });
  const { address, namespace, pid } = server;
  const connection = await Connection.connect({ address });
  await ensureSearchAttributes(connection, namespace);
  return {
    ...{ address, namespace, client: new Client({ connection, namespace }), pids: [pid] },
    actions: () => readActions(`http://127.0.0.1:${metricsPort}/metrics`, namespace),
    async stop() {
      await connection.close();
      await server.stop();
    },
  };
}

/** The sum of the server's `action` counter over one namespace; it lags by up to a second or two. */
async function readActions(metricsUrl: string, namespace: string): Promise<number> {
  const text = await (await fetch(metricsUrl, { headers: { connection: 'close' } })).text();
  return text
    .split('\n')
    .filter((line) => /^action(_total)?\{/.test(line) && line.includes(`namespace="${namespace}"`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

import './quiet-runtime.js';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { connectClient } from '../../src/client/connection.js';
import { startDevServer, type DevServer, type DevServerOptions } from '../../src/local/dev-server.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { shared } from './shared.js';

/** Connections to a Temporal server, and a task queue that no other test file uses. */
export interface TestServer {
  address: string;
  namespace: string;
  taskQueue: string;
  client: Client;
  nativeConnection: NativeConnection;
  /** Closes the connections; call it in `afterAll`. */
  close(): Promise<void>;
}

/**
 * Connects to the dev server that the whole test run shares (timers as fine as 50 ms). Use unique workflow ids on it.
 */
export async function connectDevServer(): Promise<TestServer> {
  return connectTo(await shared('dev-server'));
}

const namespaces = new WeakMap<NativeConnection, string>();

/** What a connection was made for. */
export const namespaceOf = (connection: NativeConnection | undefined): string | undefined =>
  connection && namespaces.get(connection);

/** Connects to any server, for example a private one. */
export async function connectTo({ address, namespace }: { address: string; namespace: string }): Promise<TestServer> {
  const { client, close } = await connectClient({ address, namespace, timeoutMs: 10_000 });
  const nativeConnection = await NativeConnection.connect({ address });
  namespaces.set(nativeConnection, namespace);
  return {
    address,
    namespace,
    taskQueue: `test-${randomUUID()}`,
    client,
    nativeConnection,
    async close() {
      await close();
      await nativeConnection.close();
    },
  };
}

const RETENTION_SECONDS = 3650 * 24 * 3600; // as on the dev server's own

/**
 * Makes a namespace of one's own on the dev server that the whole test run shares: for tests that look at all that a
 * namespace has. It costs a thirtieth of a server of one's own.
 */
export async function connectOwnNamespace(): Promise<TestServer> {
  const { address } = await shared('dev-server');
  const namespace = `test_${randomUUID().replaceAll('-', '_')}`; // as the server's figures name it
  const server = await connectTo({ address, namespace });
  const { connection } = server.client;
  const workflowExecutionRetentionPeriod = { seconds: RETENTION_SECONDS as never };
  await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
  await ensureSearchAttributes(connection, namespace);
  return server;
}

/** Connects to a dev server of one test file alone, which ends with `close`: for settings of a whole server. */
export async function connectPrivateDevServer(
  options: Partial<DevServerOptions> = {},
): Promise<TestServer & Pick<DevServer, 'uiUrl'>> {
  const program = await startPrivateDevServer(options);
  const server = await connectTo(program);
  return {
    ...server,
    uiUrl: program.uiUrl,
    async close() {
      await server.close();
      await program.stop();
    },
  };
}

/** Starts a dev server for one test alone, to be killed or restarted; `stop` also removes its folder. */
export async function startPrivateDevServer(options: Partial<DevServerOptions> = {}): Promise<DevServer> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  const { path } = await shared('dev-server-program');
  const server = await startDevServer({
    program: path,
    logFile: join(folder, 'dev-server.log'),
    ...options,
    dynamicConfig: { 'history.timerProcessorMaxTimeShift': '"50ms"', ...options.dynamicConfig },
  });
  return {
    ...server,
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

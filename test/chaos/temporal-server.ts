import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { startDevServer, type DevServer } from '../../src/local/dev-server.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';

const run = promisify(execFile);

/** A Temporal server that can be killed and comes back with all it knew. */
export interface KillableTemporal {
  address: string;
  namespace: string;
  restart(pauseMs: number): Promise<void>;
  close(): Promise<void>;
}

/** Runs that last for one page of history only: every job continues as new again and again. */
const DYNAMIC_CONFIG = {
  'history.timerProcessorMaxTimeShift': '"50ms"',
  'limit.historyCount.suggestContinueAsNew': '120',
};

/** The dev server on a database file, its process killed with SIGKILL. */
export async function startFileTemporal(program: string, folder: string): Promise<KillableTemporal> {
  const start = (preferredPort?: number) =>
    startDevServer({
      program,
      logFile: join(folder, 'temporal.log'),
      databaseFile: join(folder, 'temporal.db'),
      dynamicConfig: DYNAMIC_CONFIG,
      ...(preferredPort === undefined ? {} : { preferredPort }),
    });
  let server: DevServer = await start();
  const { address, namespace } = server;
  return {
    address,
    namespace,
    async restart(pauseMs) {
      process.kill(server.pid, 'SIGKILL');
      await server.ended;
      await server.stop();
      await pause(pauseMs);
      server = await start(Number(address.split(':')[1]));
      if (server.address !== address) throw new Error(`another process has the port of ${address}`);
    },
    close: () => server.stop(),
  };
}

interface CommandedTemporal {
  address: string;
  namespace: string;
  /** Shell commands that kill the server and start it again on its data; without them it is left alone. */
  kill?: string | undefined;
  start?: string | undefined;
}

/** A server that runs already, killed and started by commands of its operator. */
export async function connectCommandedTemporal({
  address,
  namespace,
  kill,
  start,
}: CommandedTemporal): Promise<KillableTemporal> {
  const connection = await Connection.connect({ address });
  await ensureSearchAttributes(connection, namespace);
  await connection.close();
  return {
    address,
    namespace,
    async restart(pauseMs) {
      if (kill === undefined || start === undefined) return;
      await run('/bin/sh', ['-c', kill]);
      await pause(pauseMs);
      await run('/bin/sh', ['-c', start], { timeout: 120_000 });
    },
    close: () => Promise.resolve(),
  };
}

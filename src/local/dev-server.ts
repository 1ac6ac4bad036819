/** Temporal's dev server, started on free ports of the loopback address until it answers. */
import { connectClient } from '../client/connection.js';
import { attributeType, SEARCH_ATTRIBUTE } from '../contract.js';
import { ensureSearchAttributes } from '../starter.js';
import { checkAnswer, freePort, startProcess, untilReady } from './child-process.js';

/** How to start the dev server. */
export interface DevServerOptions {
  program: string;
  /** Takes the server's output; if the server does not start, the error has the file's last lines. */
  logFile: string;
  /** SQLite file that keeps everything over restarts; without it the server forgets. */
  databaseFile?: string;
  /** The port to take if it is free, else any free one; the next setting is the same for the web UI. */
  preferredPort?: number;
  preferredUiPort?: number;
  /** Starts the web UI, too. */
  ui?: boolean;
  /** Serves the server's own metrics on this port, under `/metrics`; default: any free one. */
  metricsPort?: number;
  /** Keys and JSON values, for example `{'history.timerProcessorMaxTimeShift': '"50ms"'}`. */
  dynamicConfig?: Readonly<Record<string, string>>;
  /** Ends the start, and the server that it began. */
  signal?: AbortSignal;
}

/** Temporal's dev server, running, with the contract's search attributes registered in its namespace. */
export interface DevServer {
  /** `host:port` of the gRPC front end. */
  address: string;
  namespace: string;
  /** Address of the web UI, without a slash at its end; undefined if there is none. */
  uiUrl: string | undefined;
  pid: number;
  /** Settles when the server has ended, for whatever reason. */
  ended: Promise<string>;
  stop(): Promise<void>;
}

const HOST = '127.0.0.1';
const NAMESPACE = 'default';
const MAX_STARTS = 3; // a port that was free a moment ago may be taken by now
const STOP_GRACE_MS = 5_000;
/** With a write-ahead log a busy server keeps up; each write is on the disk before it is confirmed. */
const DURABLE = ['--sqlite-pragma', 'journal_mode=WAL', '--sqlite-pragma', 'synchronous=FULL'];
/** Tasks of each fairness key go by turns, as with the Compose file. */
const FAIR = { 'matching.enableFairness': 'true', 'matching.enableMigration': 'true' };
const RETENTION_SECONDS = 3650 * 24 * 3600;

/** Starts the dev server and waits until it answers; throws, with the end of its log, if it does not. */
export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  for (let start = 1; ; start++) {
    const port = await freePort(options.preferredPort);
    const uiPort = options.ui ? await freePort(options.preferredUiPort, [port]) : undefined;
    const httpPort = await freePort(undefined, [port, uiPort ?? 0]);
    const address = `${HOST}:${port}`;
    const args = serverArguments(options, { port, uiPort, httpPort });
    // An empty environment: the CLI would read TEMPORAL_* and a configuration file for itself.
    const server = await startProcess({ program: options.program, args, env: {}, logFile: options.logFile });
    const stop = () => server.stop(STOP_GRACE_MS);
    try {
      const check = async () => {
        // The HTTP port opens last, and no other start prefers that port. On the gRPC port another server may answer.
        await checkAnswer(`http://${HOST}:${httpPort}/api/v1/system-info`);
        await prepareNamespace(address);
      };
      await untilReady("Temporal's dev server", server, check, options.signal);
      const uiUrl = uiPort === undefined ? undefined : `http://${HOST}:${uiPort}`;
      return { address, namespace: NAMESPACE, uiUrl, pid: server.pid, ended: server.ended, stop };
    } catch (error) {
      await stop();
      if (start >= MAX_STARTS || options.signal?.aborted) throw error;
    }
  }
}

interface Ports {
  port: number;
  uiPort: number | undefined;
  httpPort: number;
}

function serverArguments(options: DevServerOptions, { port, uiPort, httpPort }: Ports): string[] {
  return [
    ...['server', 'start-dev', '--ip', HOST, '--port', String(port), '--http-port', String(httpPort)],
    ...['--log-level', 'error'],
    ...(uiPort === undefined ? ['--headless'] : ['--ui-port', String(uiPort)]),
    ...(options.metricsPort === undefined ? [] : ['--metrics-port', String(options.metricsPort)]),
    ...(options.databaseFile === undefined ? [] : ['--db-filename', options.databaseFile, ...DURABLE]),
    ...Object.values(SEARCH_ATTRIBUTE).flatMap((name) => ['--search-attribute', `${name}=${attributeType(name)}`]),
    ...Object.entries({ ...FAIR, ...options.dynamicConfig }).flatMap(([key, value]) => [
      '--dynamic-config-value',
      `${key}=${value}`,
    ]),
  ];
}

/** Succeeds once the namespace has its search attributes. Sets how long it keeps closed workflows and their keys. */
async function prepareNamespace(address: string): Promise<void> {
  const { client, close } = await connectClient({ address, namespace: NAMESPACE, timeoutMs: 1_000 });
  const { connection } = client;
  try {
    await connection.withDeadline(Date.now() + 5_000, async () => {
      // The server's own option registers no search attributes in a database that is there already.
      const added = await ensureSearchAttributes(connection, NAMESPACE);
      if (added.length > 0) throw new Error(`search attributes not registered yet: ${added.join(', ')}`);
      await connection.workflowService.updateNamespace({
        namespace: NAMESPACE,
        config: { workflowExecutionRetentionTtl: { seconds: RETENTION_SECONDS as never } },
      });
    });
  } finally {
    await close();
  }
}

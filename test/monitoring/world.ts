/** What a recording needs: a Temporal namespace of its own, a sandbox, and production workers. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { startDevServer, type DevServer } from '../../src/local/dev-server.js';
import { findDevServer } from '../../src/local/fetched-program.js';
import { freePort } from '../../src/local/child-process.js';
import { AgentJobs } from '../../src/starter.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { distFolder, startProgram, until, type WorkerProcess } from '../support/worker-process.js';

const RETENTION_S = 86_400;
/** Many processes start at once. */
const START_LIMIT_MS = 300_000;

/** The server that recordings share, a namespace each. */
export async function startServer(folder: string): Promise<DevServer> {
  const program = await findDevServer({ env: process.env });
  return startDevServer({ program, logFile: join(folder, 'temporal.log') });
}

export interface WorkerOptions {
  env?: Record<string, string>;
  /** Another build. */
  dist?: string;
  /** By so many hours the clock of the worker's machine is ahead. */
  hoursAhead?: number;
}

export interface RecordedWorker extends WorkerProcess {
  port: number;
}

export class World {
  readonly jobs: AgentJobs;
  readonly sandbox: Sandbox;
  readonly folder: string;
  readonly #connection: Connection;
  readonly #env: Record<string, string>;
  readonly #workers: WorkerProcess[] = [];

  private constructor(connection: Connection, namespace: string, sandbox: Sandbox, folder: string, address: string) {
    this.#connection = connection;
    this.jobs = new AgentJobs({ client: new Client({ connection, namespace }) });
    this.sandbox = sandbox;
    this.folder = folder;
    this.#env = {
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      UPSTREAM_BASE_URL: sandbox.url,
      ADMIN_API_KEY: sandbox.apiKey,
      SNAPSHOTS_URL: pathToFileURL(join(folder, 'snapshots')).href,
      WORKER_ROLES: 'jobs',
    };
  }

  static async open({ address }: Pick<DevServer, 'address'>, namespace: string): Promise<World> {
    const connection = await Connection.connect({ address });
    const workflowExecutionRetentionPeriod = { seconds: RETENTION_S as never };
    await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    // The server's caches know a new namespace after some seconds.
    await until(
      () =>
        ensureSearchAttributes(connection, namespace).then(
          () => true,
          () => false,
        ),
      `the namespace ${namespace}`,
      undefined,
      START_LIMIT_MS,
    );
    const sandbox = await startSandbox({ script: { activeMs: 20_000 } });
    const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-recording-'));
    return new World(connection, namespace, sandbox, folder, address);
  }

  /** Starts a worker; waits until it runs, or where it is told not to, for nothing. */
  async startWorker({ env = {}, dist = distFolder, hoursAhead = 0 }: WorkerOptions = {}): Promise<RecordedWorker> {
    const port = Number((env['METRICS_ADDRESS'] ?? '').split(':')[1] ?? (await freePort()));
    const ahead = `const now = Date.now; Date.now = () => now() + ${hoursAhead * 3_600_000};`;
    const clock = hoursAhead === 0 ? [] : ['--import', `data:text/javascript,${encodeURIComponent(ahead)}`];
    const settings = { ...this.#env, METRICS_ADDRESS: `127.0.0.1:${port}`, ...env };
    const worker = startProgram([...clock, join(dist, 'worker.js')], settings);
    this.#workers.push(worker);
    const runs = () => worker.output().includes('The worker runs');
    await until(runs, 'the worker to run', worker.output, START_LIMIT_MS);
    return { ...worker, port };
  }

  /** Starts `agent-jobs serve`, with a file of keys that has none. */
  async startServe(): Promise<{ port: number; url: string; wrongKey: Record<string, string> }> {
    const port = await freePort();
    const keysFile = join(this.folder, 'http-keys.json');
    await writeFile(keysFile, '{}');
    const settings = { ...this.#env, HTTP_ADDRESS: `127.0.0.1:${port}`, HTTP_KEYS_FILE: keysFile };
    const serve = startProgram([join(distFolder, 'cli/main.js'), 'serve'], settings);
    this.#workers.push(serve);
    await until(() => serve.output().includes('HTTP  '), 'serve to listen', serve.output, START_LIMIT_MS);
    const wrongKey = { authorization: 'Bearer a-key-that-was-taken-away' };
    return { port, url: `http://127.0.0.1:${port}`, wrongKey };
  }

  /** Starts a job that is polled every few seconds. */
  async startJob(projectId: string, key: string, polling: { min: number; max: number } = { min: 2_000, max: 5_000 }) {
    return this.jobs.start({ key, projectId, prompt: 'Say hello', polling, deadline: '10 days' });
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) await worker.kill();
    await this.sandbox.close();
    await this.#connection.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

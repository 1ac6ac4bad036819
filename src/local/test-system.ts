/** What a caller's tests run against: a Temporal server, a worker and a sandbox upstream, all real, on free ports. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Client } from '@temporalio/client';
import { AgentJobs } from 'agent-jobs-client';
import { connectClient } from '../client/connection.js';
import { processEnvironment as processEnv, type Environment } from '../config.js';
import { DEFAULT_TASK_QUEUE } from '../contract.js';
import { startSandbox, type Sandbox, type SandboxOptions } from '../sandbox/sandbox.js';
import { type Stops, stopAll } from './child-process.js';
import { startDevServer } from './dev-server.js';
import { findDevServer } from './find-dev-server.js';
import { startWorker } from './worker-process.js';

/** How a test system behaves. */
export interface TestSystemOptions {
  /** How the upstream behaves; by default a job is active for four seconds, then completed. */
  sandbox?: SandboxOptions | undefined;
  /** Settings of the worker, over those that lead it to the servers, such as `{CREATES_PER_HOUR: '10'}`. */
  worker?: Environment | undefined;
  /** Called with lines that say what a first start fetches; default: standard error. */
  onProgress?: ((line: string) => void) | undefined;
}

/** A system for tests, running. */
export interface TestSystem extends AsyncDisposable {
  /** The package's own client, not that of the sources: a caller's `instanceof` knows its errors. */
  readonly jobs: AgentJobs;
  /** The Temporal client of `jobs`. */
  readonly client: Client;
  /** The upstream, with its scripts, faults and request log. */
  readonly sandbox: Sandbox;
  /** `host:port` of the Temporal server, for services that run in processes of their own. */
  readonly address: string;
  readonly namespace: string;
  readonly taskQueue: string;
  /** Ends everything; again does nothing. Whatever ends this process ends the others too. */
  readonly close: () => Promise<void>;
}

const WORKER_STOP_GRACE_MS = 5_000;

/**
 * Starts a Temporal server, a worker and a sandbox upstream on free ports of the loopback address. The Temporal server
 * is that of `TEMPORAL_CLI_PATH`, or one that is found or fetched once (`npm start` uses the same). Throws with the
 * reason, and leaves no process behind.
 */
export async function startTestSystem(options: TestSystemOptions = {}): Promise<TestSystem> {
  const stops: Stops = [];
  const close = () => stopAll(stops);
  try {
    return { ...(await startAll(options, stops)), close, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close().catch(() => {}); // the reason of the start says more
    throw error;
  }
}

/** Starts one part after the other; each leaves behind how it is stopped. */
async function startAll(options: TestSystemOptions, stops: Stops) {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  stops.push(() => rm(folder, { recursive: true, force: true }));
  const onProgress = options.onProgress ?? ((line: string) => void process.stderr.write(`${line}\n`));
  const program = await findDevServer({ env: processEnv, onProgress });
  const server = await startDevServer({ program, logFile: join(folder, 'temporal.log') });
  stops.push(server.stop);
  const { address, namespace } = server;
  const sandbox = await startSandbox(options.sandbox);
  stops.push(sandbox.close);
  const env = {
    PATH: processEnv['PATH'],
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    SNAPSHOTS_URL: pathToFileURL(join(folder, 'snapshots')).href,
    ...options.worker,
  };
  const taskQueue = DEFAULT_TASK_QUEUE;
  const logFile = join(folder, 'worker.log');
  await startWorker({ env, server, taskQueue, logFile, stopGraceMs: WORKER_STOP_GRACE_MS }, stops);
  const { client, close } = await connectClient({ address, namespace });
  stops.push(close);
  return { jobs: new AgentJobs({ client, taskQueue }), client, sandbox, address, namespace, taskQueue };
}

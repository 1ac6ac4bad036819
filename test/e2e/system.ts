/**
 * What the end-to-end tests share: a real Temporal server, a sandbox upstream, and production workers in processes of
 * their own, or in the test's where it is not about them.
 */
import { afterAll, afterEach, beforeAll } from 'vitest';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../src/testing.js';
import { connectDevServer, connectPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { startJobsWorker } from '../support/jobs-worker.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';

/** The servers and workers of one test file. */
class System {
  server!: TestServer;
  sandbox!: Sandbox;
  readonly #workers: WorkerProcess[] = [];
  #endOwnWorker: (() => Promise<void>) | undefined;

  /** The way to the Temporal server and the task queue, as environment variables. */
  clientEnv(): Record<string, string> {
    const { address, namespace, taskQueue } = this.server;
    return { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, AGENT_JOBS_TASK_QUEUE: taskQueue };
  }

  /** Starts one more worker on the file's own task queue; it is killed after the test if it still runs. */
  startWorker(env: Record<string, string> = {}): WorkerProcess {
    const upstream = { UPSTREAM_BASE_URL: this.sandbox.url, ADMIN_API_KEY: this.sandbox.apiKey };
    const worker = startWorkerProcess({ ...this.clientEnv(), ...upstream, ...env });
    this.#workers.push(worker);
    return worker;
  }

  /** Has a worker of jobs in this process, which ends after the test, too. */
  async haveWorker(): Promise<void> {
    const { server, sandbox } = this;
    this.#endOwnWorker ??= await startJobsWorker(server, server.taskQueue, sandbox);
  }

  async endWorkers(): Promise<void> {
    for (const worker of this.#workers.splice(0)) await worker.kill();
    const end = this.#endOwnWorker;
    this.#endOwnWorker = undefined;
    await end?.();
  }
}

/**
 * Sets a system up for all tests of a file, on the Temporal server that all files share; the workers are each test's
 * own.
 */
export function useSystem(options: SandboxOptions = {}): System {
  return useSystemOn(connectDevServer, options);
}

/** The same on a Temporal server of the file's own, for loads that others should not feel. */
export function usePrivateSystem(options: SandboxOptions = {}): System {
  return useSystemOn(() => connectPrivateDevServer({}), options);
}

function useSystemOn(connect: () => Promise<TestServer>, options: SandboxOptions): System {
  const system = new System();
  beforeAll(async () => {
    system.server = await connect();
    system.sandbox = await startSandbox(options);
  });
  afterEach(() => system.endWorkers());
  afterAll(async () => {
    await system.sandbox.close();
    await system.server.close();
  });
  return system;
}

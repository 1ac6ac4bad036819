/**
 * What the end-to-end tests share: a real Temporal server, a sandbox upstream, and production workers in processes of
 * their own, or in the test's where it is not about them.
 */
import { afterEach } from 'vitest';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../src/testing.js';
import { envOf } from '../cli/run-cli.js';
import { connectDevServer, connectPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { startJobsWorker } from '../support/jobs-worker.js';
import { useForFile } from '../support/use.js';
import { startWorkerProcess, workerEnv, type WorkerProcess } from '../support/worker-process.js';

/** The servers and workers of one test file. */
class System {
  readonly server: TestServer;
  readonly sandbox: Sandbox;
  readonly #workers: WorkerProcess[] = [];
  #endOwnWorker: (() => Promise<void>) | undefined;

  constructor(connect: () => Promise<TestServer>, options: SandboxOptions) {
    this.server = useForFile(connect);
    this.sandbox = useForFile(() => startSandbox(options));
    afterEach(() => this.endWorkers());
  }

  /** The way to the Temporal server and the task queue, as environment variables. */
  clientEnv(): Record<string, string> {
    return envOf(this.server);
  }

  /** Starts one more worker on the file's own task queue; it is killed after the test if it still runs. */
  startWorker(env: Record<string, string> = {}): WorkerProcess {
    const worker = startWorkerProcess({ ...workerEnv(this.server, this.sandbox), ...env });
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
  return new System(connectDevServer, options);
}

/** The same on a Temporal server of the file's own, for loads that others should not feel. */
export function usePrivateSystem(options: SandboxOptions = {}): System {
  return new System(connectPrivateDevServer, options);
}

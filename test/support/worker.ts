import './quiet-runtime.js';
import { Worker, type NativeConnection, type WorkerOptions } from '@temporalio/worker';
import { shared } from './shared.js';

interface TestWorkerOptions extends Partial<WorkerOptions> {
  connection: NativeConnection;
  taskQueue: string;
  /** The activities' implementations, or stand-ins by the same names. */
  activities: object;
}

/**
 * Makes a worker inside the test's process, with the project's workflows (bundled once per test run) unless
 * `workflowsPath` or `workflowBundle` say otherwise. Run it with `worker.runUntil(...)`, or `run` and `shutdown`.
 */
export async function createTestWorker(options: TestWorkerOptions): Promise<Worker> {
  const hasOwnWorkflows = options.workflowsPath !== undefined || options.workflowBundle !== undefined;
  const workflows = hasOwnWorkflows ? {} : { workflowBundle: { codePath: (await shared('workflow-bundle')).path } };
  return Worker.create({ ...workflows, ...options });
}

import './quiet-runtime.js';
import { type ClientInterceptors, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import {
  bundleWorkflowCode,
  DefaultLogger,
  Worker,
  type NativeConnection,
  type WorkerOptions,
  type WorkflowBundle,
} from '@temporalio/worker';
import { isolateTimeout } from '../../src/temporal/workflow-bundle.js';
import { namespaceOf } from './dev-server.js';
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
  const { workflowsPath, ...others } = options;
  if (workflowsPath) return createWorker({ ...others, workflowBundle: await bundleOf(workflowsPath) });
  if (options.workflowBundle) return createWorker(options);
  return createWorker({ ...options, workflowBundle: { codePath: (await shared('workflow-bundle')).path } });
}

const bundles = new Map<string, Promise<WorkflowBundle>>();

/** Made once in each process: it takes a second of CPU and more. */
export function bundleOf(workflowsPath: string): Promise<WorkflowBundle> {
  const bundle = bundles.get(workflowsPath) ?? bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('WARN') });
  bundles.set(workflowsPath, bundle);
  return bundle;
}

/**
 * Makes a worker inside the test's process, with nothing but what the options say. In debug mode workflows run in this
 * thread: a worker that starts one of its own takes eight times the CPU to begin, a third of a second.
 */
export function createWorker(options: WorkerOptions): Promise<Worker> {
  const defaults = { interceptors: { client: signalsTheOther }, debugMode: true, ...isolateTimeout };
  const namespace = namespaceOf(options.connection);
  return Worker.create({ ...defaults, ...(namespace !== undefined && { namespace }), ...options });
}

/**
 * Two start the same workflow by a signal at once: the time-skipping server answers the second with an error. Another
 * Temporal server signals the one that was first, and so does the second try here.
 */
const signalsTheOther: ClientInterceptors = {
  workflow: [
    {
      signalWithStart: async (input, next) => {
        try {
          return await next(input);
        } catch (error) {
          if (error instanceof WorkflowExecutionAlreadyStartedError) return next(input);
          throw error;
        }
      },
    },
  ],
};

/** The workflows of the sources, which continue as new as early as a test says. */
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundle } from '@temporalio/worker';
import { workflowBundleOptions } from '../../src/temporal/workflow-bundle.js';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** With the memo `eventsPerRun`, see early-continue-as-new.ts. */
export function earlyBundle(): Promise<WorkflowBundle> {
  const options = workflowBundleOptions(here('../../src/'), '.ts');
  const workflowInterceptorModules = [...options.workflowInterceptorModules, here('early-continue-as-new.ts')];
  return bundleWorkflowCode({ ...options, workflowInterceptorModules });
}

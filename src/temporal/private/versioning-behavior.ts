/**
 * Decides on which versions of the workers a run that is open may go on, or one that is closed may be queried.
 *
 * Needs: a field of the SDK's state of a workflow. The SDK sends it with each task, and lets no workflow change it.
 * Can go when: a workflow may set its versioning behaviour while it runs.
 * Test: `test/worker/old-version.test.ts`, and `test/private/workflow.test.ts` for the SDK's own way.
 */
import { getActivator } from '@temporalio/workflow/lib/global-attributes.js';

/** Sets what the run says of itself as each task is completed, from now on. */
export function setVersioningBehavior(get: () => 'AUTO_UPGRADE' | undefined): void {
  Object.defineProperty(getActivator(), 'versioningBehavior', { configurable: true, get });
}

/**
 * Decides on which version of the workers a run goes on, if they have versions (`WORKER_DEPLOYMENT`). A run stays on
 * the version of the worker that began it, so that no other code replays it. Once another version is current, the run
 * goes on there by continue-as-new, at a moment at which nothing is under way.
 */
import { workflowInfo, type ContinueAsNewOptions } from '@temporalio/workflow';
import { setVersioningBehavior } from '../temporal/private/versioning-behavior.js';

/** Whether another version than this run's is current. */
export function isOtherVersionCurrent(): boolean {
  return workflowInfo().targetWorkerDeploymentVersionChanged === true;
}

/** Whether the server wants a new run: the history is long, or another version of the workers is current. */
export function isNewRunWanted(): boolean {
  return workflowInfo().continueAsNewSuggested || isOtherVersionCurrent();
}

/** The version of the next run: the one that is current by then, or this run's. */
export function nextRunVersion(): Pick<ContinueAsNewOptions, 'initialVersioningBehavior'> {
  return isOtherVersionCurrent() ? { initialVersioningBehavior: 'AUTO_UPGRADE' } : {};
}

/**
 * Call it right before the run ends: any later version then answers queries of the closed run. Else only workers of its
 * own version could, which are gone one day.
 */
export function leaveVersion(): void {
  if (isVersioned()) setVersioningBehavior(() => 'AUTO_UPGRADE');
}

/**
 * Call it first in a workflow that goes on with whatever version is current. It is asked as each task is completed: the
 * setting may be switched while a run is open, and a worker without versions may not name any.
 */
export function goOnWithAnyVersion(): void {
  setVersioningBehavior(() => (isVersioned() ? 'AUTO_UPGRADE' : undefined));
}

/** Without versioning the name is empty, or there is none. */
function isVersioned(): boolean {
  return Boolean(workflowInfo().currentDeploymentVersion?.deploymentName);
}

import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { shared } from './shared.js';
import { startTimeSkippingServer } from './time-skipping-server.js';

/**
 * Starts a time-skipping server of one's own, search attributes registered. One environment serves one workflow at a
 * time; time is skipped while a result is awaited and in `environment.sleep`, not while an update is. Call `teardown`
 * in `afterAll`.
 */
export async function startTimeSkipping(): Promise<TestWorkflowEnvironment> {
  const { path } = await shared('time-skipping-program');
  return startTimeSkippingServer(path);
}

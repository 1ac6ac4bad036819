import './quiet-runtime.js';
import { WorkflowNotFoundError } from '@temporalio/client';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { shared } from './shared.js';

const KEYWORD = 2; // temporal.api.enums.v1.IndexedValueType

/**
 * Starts a time-skipping server of one's own, search attributes registered. One environment serves one workflow at a
 * time; time is skipped while a result is awaited and in `environment.sleep`, not while an update is. Call `teardown`
 * in `afterAll`.
 */
export async function startTimeSkipping(): Promise<TestWorkflowEnvironment> {
  const { path } = await shared('time-skipping-program');
  const environment = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  });
  // A workflow that sets an attribute that is not registered would retry for ever.
  await environment.connection.operatorService.addSearchAttributes({
    namespace: environment.namespace ?? 'default',
    searchAttributes: Object.fromEntries(Object.values(SEARCH_ATTRIBUTE).map((name) => [name, KEYWORD])),
  });
  return environment;
}

/**
 * This server may forget an update that was accepted in the very task that ends the run; how the run ends tells whether
 * it counted.
 */
export function unlessForgotten(error: unknown): void {
  const isForgotten = error instanceof WorkflowNotFoundError && error.message.startsWith('update ');
  if (!isForgotten) throw error;
}

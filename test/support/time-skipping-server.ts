import './quiet-runtime.js';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { attributeType, SEARCH_ATTRIBUTE } from '../../src/contract.js';

const TYPES = { Keyword: 2, KeywordList: 7 }; // temporal.api.enums.v1.IndexedValueType

/** Starts the time-skipping server of this program, search attributes registered. `teardown` ends it. */
export async function startTimeSkippingServer(program: string): Promise<TestWorkflowEnvironment> {
  const environment = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path: program } },
  });
  // A workflow that sets an attribute that is not registered would retry for ever.
  await environment.connection.operatorService.addSearchAttributes({
    namespace: environment.namespace ?? 'default',
    searchAttributes: Object.fromEntries(
      Object.values(SEARCH_ATTRIBUTE).map((name) => [name, TYPES[attributeType(name)]]),
    ),
  });
  return environment;
}

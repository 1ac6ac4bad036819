/** The time-skipping server: one clock for several workflows, such as exports and the queue in which they wait. */
import './quiet-runtime.js';
import { setTimeout as pause } from 'node:timers/promises';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { NativeConnection } from '@temporalio/worker';
import { attributeType, SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { ending } from './ending.js';
import { shared } from './shared.js';
import { startTaskOrder } from './task-order.js';

/** The SDK repeats a failed request within this time; on a closed connection that throws where nothing catches. */
const LAST_RETRY_MS = 5_000;
const TYPES = { Keyword: 2, KeywordList: 7 }; // temporal.api.enums.v1.IndexedValueType

/**
 * Starts a time-skipping server of one's own, search attributes registered. Time is skipped while one result is awaited
 * and in `environment.sleep`, not while an update is. Call `teardown` at the end.
 */
export async function startTimeSkipping(): Promise<TestWorkflowEnvironment> {
  const { path } = await shared('time-skipping-program');
  const environment = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  });
  // A workflow that sets an attribute that is not registered would retry for ever.
  await environment.connection.operatorService.addSearchAttributes({
    namespace: environment.namespace ?? 'default',
    searchAttributes: Object.fromEntries(
      Object.values(SEARCH_ATTRIBUTE).map((name) => [name, TYPES[attributeType(name)]]),
    ),
  });
  return withTaskOrder(environment);
}

/** Workers connect by a proxy without which that server loses a task now and then. */
async function withTaskOrder(environment: TestWorkflowEnvironment): Promise<TestWorkflowEnvironment> {
  const order = await startTaskOrder(environment.address);
  const nativeConnection = await NativeConnection.connect({ address: order.address });
  const direct = environment.nativeConnection;
  const teardown = environment.teardown.bind(environment);
  Object.defineProperty(environment, 'nativeConnection', { value: nativeConnection });
  const end = async () => {
    await pause(LAST_RETRY_MS);
    await direct.close();
    await teardown();
    order.close();
  };
  // The next test need not wait for it.
  environment.teardown = () => Promise.resolve(void ending.add(end()));
  return environment;
}

import type { NativeConnection } from '@temporalio/worker';
import { SEARCH_ATTRIBUTE } from '../contract.js';
import { hasGrpcStatus } from '../temporal/grpc-status.js';
import type { Logger } from './logging.js';

const CALL_LIMIT_MS = 10_000;

/** The search attributes that the namespace does not know: a workflow that sets one makes no progress. */
async function missingSearchAttributes(connection: NativeConnection, namespace: string): Promise<string[]> {
  const names = Object.values(SEARCH_ATTRIBUTE);
  // A query needs no more than a worker's own permissions, Temporal Cloud included.
  const known = await Promise.all(names.map((name) => isKnown(connection, namespace, name)));
  return names.filter((_, index) => !known[index]);
}

/** Warns where `agent-jobs setup` has not been run. */
export async function warnOfMissingSearchAttributes(
  connection: NativeConnection,
  namespace: string,
  log: Logger,
): Promise<void> {
  try {
    const missing = await missingSearchAttributes(connection, namespace);
    if (missing.length === 0) return;
    log.warn(
      { namespace, missing },
      'Search attributes are not registered, and a job that sets one stands still: run "agent-jobs setup"',
    );
  } catch (error) {
    log.warn({ namespace, error }, 'Could not check whether the search attributes are registered');
  }
}

async function isKnown(connection: NativeConnection, namespace: string, name: string): Promise<boolean> {
  try {
    await countWorkflows(connection, namespace, `${name} = 'x'`);
    return true;
  } catch (error) {
    if (isUnknownAttribute(error)) return false;
    throw error;
  }
}

/** True where a query names a search attribute that the namespace does not know. */
export function isUnknownAttribute(error: unknown): boolean {
  return hasGrpcStatus(error, 'invalidArgument');
}

/** How many workflows a query finds. */
export async function countWorkflows(connection: NativeConnection, namespace: string, query: string): Promise<number> {
  const { count } = await connection.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
    connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count);
}

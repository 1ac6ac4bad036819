/** Pausing a workflow, as an operator does it with the Temporal CLI. */
import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';

/** Pauses a workflow; what it returns unpauses it. */
export async function pauseWorkflow(client: Client, workflowId: string): Promise<() => Promise<void>> {
  const { namespace } = client.options;
  const request = () => ({ namespace, workflowId, identity: 'ann@ops', requestId: randomUUID() });
  await client.workflowService.pauseWorkflowExecution({ ...request(), reason: 'the upstream is migrated' });
  return async () => {
    await client.workflowService.unpauseWorkflowExecution(request());
  };
}

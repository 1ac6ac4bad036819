/** Decides whether a job that a Schedule starts may have been created before, by an earlier run of its workflow id. */
import { activityInfo, Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { toSummary } from '../../client/agent-job/job-summary.js';
import { equals } from '../../client/visibility-query.js';
import { FAILURE } from '../../contract.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';

/** A list takes no longer while Temporal is well. */
const LIST_TIMEOUT_MS = 5_000;

/**
 * The input of a create. Where an earlier run of this workflow id has ended, other than refused, it is marked as where
 * Temporal itself starts a run again: that asks. Temporal lets a Schedule start such an id, and a backfill does so.
 * Throws where Temporal does not list the runs.
 */
export async function markedIfAgain<Input extends { isScheduled?: boolean }>(input: Input): Promise<Input> {
  if (input.isScheduled !== true) return input;
  const { client } = Context.current();
  const workflowId = activityInfo().workflowExecution?.workflowId ?? '';
  const isAgain = await client.withDeadline(Date.now() + LIST_TIMEOUT_MS, () => hasEnded(client, workflowId));
  return isAgain ? { ...input, afterReset: true, repeatedRun: true } : input;
}

async function hasEnded(client: Client, workflowId: string): Promise<boolean> {
  const query = `${equals('WorkflowId', workflowId)} AND CloseTime IS NOT NULL AND ExecutionStatus != 'ContinuedAsNew'`;
  for await (const run of lenientWorkflowClient(client).list({ query })) {
    // A query asks for no more than the beginning of an id with quotes.
    if (run.workflowId === workflowId && toSummary(run).outcome !== FAILURE.createRejected) return true;
  }
  return false;
}

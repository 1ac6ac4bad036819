/** Decides whether a job that a Schedule starts may have been created before, by an earlier run of its workflow id. */
import { activityInfo, Context } from '@temporalio/activity';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { allowedAfter } from '../../agent-job/closed-run.js';
import type { Life } from '../../contract/write-outcome.js';
import { nullIfGone, readClosedRun } from '../../client/agent-job/run-record.js';
import { isOutage } from '../../client/temporal-errors.js';
import { equals } from '../../temporal/visibility.js';
import { lenientWorkflowClient } from '../../temporal/workflow-clients.js';

/** A list takes no longer while Temporal is well. */
const LIST_TIMEOUT_MS = 5_000;

type Run = Pick<WorkflowExecutionInfo, 'workflowId' | 'runId'>;

/**
 * The life of a create, without the doubt of a Schedule if no earlier run of this workflow id may have made a job.
 * Temporal lets a Schedule start such an id again, and a backfill does so. The doubt stays, too, if Temporal does
 * not list the runs. Throws during an outage.
 */
export async function surelyDoubted(life: Life): Promise<Life> {
  if (life.doubt !== 'scheduled') return life;
  const { client } = Context.current();
  const run = activityInfo().workflowExecution ?? { workflowId: '', runId: '' };
  const listing = client.withDeadline(Date.now() + LIST_TIMEOUT_MS, () => hasEnded(client, run));
  const isAgain = await listing.catch((error: unknown) => {
    if (isOutage(error)) throw error;
    return true;
  });
  return isAgain ? life : { ...life, doubt: null };
}

async function hasEnded(client: Client, { workflowId, runId }: Run): Promise<boolean> {
  const query = `${equals('WorkflowId', workflowId)} AND ExecutionStatus != 'ContinuedAsNew'`;
  for await (const run of lenientWorkflowClient(client).list({ query })) {
    // A query asks for no more than the beginning of an id with quotes.
    if (run.workflowId === workflowId && run.runId !== runId && (await mayHaveMadeJob(client, run))) return true;
  }
  return false;
}

/** One run of an id is open at a time: an earlier one that is listed as open has closed, or was deleted since. */
async function mayHaveMadeJob(client: Client, { workflowId, runId }: Run): Promise<boolean> {
  const run = await lenientWorkflowClient(client).getHandle(workflowId, runId).describe().catch(nullIfGone);
  if (run === null || run.status.name === 'CONTINUED_AS_NEW') return false;
  if (run.status.name !== 'FAILED') return true;
  const closed = await readClosedRun(client, { workflowId, runId }).catch(nullIfGone);
  return closed !== null && allowedAfter(closed.end, null) !== 'start again';
}

/**
 * Starting a closed workflow id again. Such a start uses what was read of the last run, so it must not reach Temporal
 * once another run has followed: all who read the same run share one request id, and the start has a deadline.
 */
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW } from '../../contract.js';
import { withRestartRequestId } from '../../temporal/workflow-clients.js';
import { throwIfOver } from '../temporal-call.js';
import { isDeadlineExceeded } from '../temporal-errors.js';
import { readRun, type RunRecord } from './run-record.js';

/** From the read of a closed run to the start that goes on from it: after that it may no longer be the last run. */
const START_WITHIN_MS = 5_000;
const ATTACH_TIMEOUT_MS = 2_000;
/**
 * Each is one request and one event in the new run's history; a caller that missed more restarts meets the time limit.
 */
const MAX_ATTACHED_REQUEST_IDS = 20;

/** Sends a start that goes on from `last`. Null if it came too late, got no response, or one with a closed run. */
export async function restartAfter<T>(
  client: Client,
  last: RunRecord,
  earlierRunIds: string[],
  start: () => Promise<T>,
): Promise<T | null> {
  throwIfOver(client);
  const leftMs = START_WITHIN_MS - last.elapsedMs();
  if (leftMs <= 0) return null;
  try {
    return await client.withDeadline(Date.now() + leftMs, start);
  } catch (error) {
    if (isDeadlineExceeded(error) || isAnsweredWithClosedRun(error)) return null;
    throw error;
  } finally {
    // Best effort: without it the time limit alone guards the start.
    const deadline = Date.now() + ATTACH_TIMEOUT_MS;
    await client.withDeadline(deadline, () => attachEarlierRequestIds(client, last, earlierRunIds)).catch(() => {});
  }
}

/** A start with an update whose start Temporal answered with an earlier run can't take the update any more. */
function isAnsweredWithClosedRun(error: unknown): boolean {
  if (error instanceof WorkflowExecutionAlreadyStartedError) return true;
  return error instanceof Error && error.message.includes('StartDeduped');
}

/**
 * A start that goes on from an older run than `last` may reach the server late. It would make a run that does not know
 * what the later runs did. So the request ids of such starts are attached to the new run while it is open: Temporal
 * then answers them with this run, even after it has closed. A server that can't attach ids answers each with the open
 * run, which harms nothing. See temporal/workflow-clients.ts.
 */
async function attachEarlierRequestIds(client: Client, last: RunRecord, earlierRunIds: string[]): Promise<void> {
  if (earlierRunIds.length === 0) return;
  const { workflowId, isRunning, taskQueue } = await readRun(client, last.workflowId);
  if (!isRunning) return;
  const attach = (runId: string) =>
    client.workflow.start(AGENT_JOB_WORKFLOW, {
      workflowId,
      taskQueue,
      // It meets the run that runs, or nothing: it never makes one.
      workflowIdConflictPolicy: 'USE_EXISTING',
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      ...withRestartRequestId(runId, { attachRequestId: true }),
    });
  await Promise.allSettled(earlierRunIds.slice(0, MAX_ATTACHED_REQUEST_IDS).map(attach));
}

/**
 * Starts that continue from a closed run. They use what was read of that run, so they must not be sent once another run
 * has followed.
 */
import type { Client } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW } from '../../contract.js';
import { restartRequestId, withRestartRequestId } from '../../temporal/restart-request-id.js';
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

/** What a restart rests on: the last run, those before it, and the time since the last one was read. */
interface RestartBasis {
  last: RunRecord;
  /** Newest first. */
  earlierRunIds: string[];
  elapsedMs: () => number;
}

/**
 * Sends a start in time, or tells that it is too late: it was not sent, or got no response, or one with a closed run.
 */
export async function restartAfter<T>(
  client: Client,
  basis: RestartBasis,
  start: () => Promise<T>,
): Promise<T | 'tooLate'> {
  throwIfOver(client);
  const leftMs = START_WITHIN_MS - basis.elapsedMs();
  if (leftMs <= 0) return 'tooLate';
  try {
    return await client.withDeadline(Date.now() + leftMs, start);
  } catch (error) {
    if (isDeadlineExceeded(error) || isAnsweredWithClosedRun(error)) return 'tooLate';
    throw error;
  } finally {
    // Best effort: without it the time limit alone guards the start.
    const deadline = Date.now() + ATTACH_TIMEOUT_MS;
    await client.withDeadline(deadline, () => attachEarlierRequestIds(client, basis)).catch(() => {});
  }
}

/** An update-with-start whose start Temporal answered with an earlier run, which can't take the update any more. */
function isAnsweredWithClosedRun(error: unknown): boolean {
  return error instanceof Error && error.message.includes('StartDeduped');
}

/**
 * A start that goes on from an older run than `last` may reach the server late. It would make a run that does not know
 * what the later runs did. So the request ids of such starts are attached to the new run while it is open: Temporal
 * then answers them with this run, even after it has closed. A server that can't attach ids answers each with the open
 * run, which harms nothing. See temporal/restart-request-id.ts.
 */
async function attachEarlierRequestIds(client: Client, { last, earlierRunIds }: RestartBasis): Promise<void> {
  if (earlierRunIds.length === 0) return;
  const { workflowId, isRunning, createdBy, taskQueue } = await readRun(client, last.workflowId);
  if (!isRunning || createdBy !== restartRequestId(last.runId)) return;
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

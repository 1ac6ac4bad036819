/** Starts that go on from a closed run: they rest on what was read of it, and must not act on it when it is no longer the last one. */
import type { Client } from '@temporalio/client';
import { AGENT_JOB_WORKFLOW } from '../../contract.js';
import { withRestartRequestId, restartRequestId } from '../../temporal/restart-request-id.js';
import { readRun, type RunRecord } from './run-record.js';
import { isDeadlineExceeded } from '../temporal-errors.js';

/** From the moment a closed run is read to the start that goes on from it: after that it may no longer be the last run. */
const START_WITHIN_MS = 5_000;
const ATTACH_MS = 2_000;
/** Each is one request and one event in the new run's history; a caller who stood still over more restarts than these meets the time limit. */
const LATE_STARTS_ANSWERED = 20;

/** What a start rests on: the last run, those before it, and the time since the last one was read. */
export interface Basis {
  last: RunRecord;
  earlierRunIds: string[];
  elapsedMs: () => number;
}

/** Sends a start in time, or tells that it is too late: it was not sent, not answered, or answered with a run that has closed. */
export async function startAfter<T>(client: Client, basis: Basis, start: () => Promise<T>): Promise<T | 'tooLate'> {
  const leftMs = START_WITHIN_MS - basis.elapsedMs();
  if (leftMs <= 0) return 'tooLate';
  try {
    return await client.withDeadline(Date.now() + leftMs, start);
  } catch (error) {
    if (isDeadlineExceeded(error) || isAnsweredWithClosedRun(error)) return 'tooLate';
    throw error;
  } finally {
    // Best effort: without it the time limit alone guards the start.
    const deadline = Date.now() + ATTACH_MS;
    await client.withDeadline(deadline, () => answerLateStarts(client, basis)).catch(() => {});
  }
}

/** An update-with-start whose start Temporal answered with an earlier run, which can't take the update any more. */
function isAnsweredWithClosedRun(error: unknown): boolean {
  return error instanceof Error && error.message.includes('StartDeduped');
}

/**
 * Makes Temporal answer every late start after an earlier run with the run that was just started after the last one, even
 * when that has closed: their request ids are attached to it while it runs. Only what a start after `last` made knows all
 * that these runs left behind. A server that can't attach them takes this for one more start of what runs already.
 */
async function answerLateStarts(client: Client, { last, earlierRunIds }: Basis): Promise<void> {
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
  await Promise.allSettled(earlierRunIds.slice(0, LATE_STARTS_ANSWERED).map(attach));
}

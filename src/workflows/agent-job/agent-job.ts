/** The workflow `agentJob`. Decides when a run is over: it ends with a result, or continues as new. */
import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
} from '@temporalio/workflow';
import type { AgentJobInput, AgentJobResult } from '../../contract.js';
import { openRun, type WaitPoint } from './continue-as-new.js';
import { logEnd } from './dashboard.js';
import { handleMessages } from './handlers.js';
import type { JobRun, RunEnding } from './job-run.js';
import { jobState } from './job-state.js';
import { pollLoop } from './poll-loop.js';
import { leaveVersion } from '../worker-version.js';
import { createRemoteJob, sendFollowUps } from './send.js';

/**
 * A long-running agent job: created (or attached to), watched by durable polling, steered by follow-ups, ended with one
 * result. Names, shapes, outcomes and failures: docs/contract.md.
 */
export async function agentJob(input: AgentJobInput): Promise<AgentJobResult> {
  const { run, dashboard, waitPoint } = openRun(input);
  handleMessages(run, dashboard);
  CancellationScope.current().cancelRequested.catch(() => (run.isCancelRequested = true));
  // A cancellation is a wish that the lifecycle obeys when no write is in flight.
  return CancellationScope.nonCancellable(async () => {
    await Promise.race([lifecycle(run, waitPoint), untilOver(run, waitPoint)]);
    run.polls.cancelBatch();
    const ending = run.ending();
    if (!ending) return waitPoint.continueAsNew();
    // The ending may have come after the run was closed to continue as new.
    run.close();
    dashboard.refresh();
    logEnd(run);
    leaveVersion();
    return conclude(run, ending);
  });
}

/** Create, then send follow-ups and poll side by side; `untilOver` ends it. */
async function lifecycle(run: JobRun, waitPoint: WaitPoint): Promise<void> {
  const { prompt, jobId: attachedId } = run.spec;
  const jobId = prompt === null ? attachedId : await createRemoteJob(run, waitPoint, prompt);
  await Promise.all([sendFollowUps(run, waitPoint, jobId), pollLoop(run, waitPoint, jobId)]);
}

/**
 * Returns when nothing is left to do. No await may stand between its last check and the end of the run: a message could
 * arrive in between, and be lost.
 */
async function untilOver(run: JobRun, waitPoint: WaitPoint): Promise<void> {
  for (;;) {
    await condition(waitPoint.mustYield);
    run.close();
    if (!allHandlersFinished()) await condition(allHandlersFinished);
    if (waitPoint.mustYield()) return;
    run.isClosing = false;
  }
}

function conclude(run: JobRun, ending: RunEnding): AgentJobResult {
  if (ending.kind === 'canceled') throw new CancelledFailure('the watch was cancelled; the remote job goes on');
  if (ending.kind === 'failed') {
    throw ApplicationFailure.nonRetryable(ending.message, ending.type, ending.details);
  }
  const { phase: _, unknown: __, waiting: ___, lastChangeAt: ____, ...result } = jobState(run);
  const finishedAt = new Date(Date.now()).toISOString();
  return { ...result, finishedAt, ...(run.endReason !== null && { reason: run.endReason }) } as AgentJobResult;
}

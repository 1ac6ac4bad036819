/** Why no worker responded: asked of Temporal after a call has timed out, so that the error names the cause. */
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { MEMO } from '../../contract.js';
import { JobTerminatedError, NoWorkerError, WorkerBusyError, WorkflowTaskFailingError } from '../errors.js';
import { livePollers } from '../pollers.js';
import { temporalCall } from '../temporal-call.js';
import { readDescription, readUnbegunInput, textOrNull } from './run-record.js';

/** For the examination of one workflow and its task queue. */
const EXAMINE_TIMEOUT_MS = 3_000;

/** A poll so lately was made while the call waited: the worker takes tasks, and the call waits behind them. */
const POLLED_MEANWHILE_MS = 8_000;

const PINNED = 1; // temporal.api.enums.v1.VersioningBehavior

/** The same to the caller, who may ask again. */
class TakingTasksError extends WorkerBusyError {}

/** Whether the worker that did not answer took other tasks meanwhile. */
export function isTakingTasks(error: unknown): boolean {
  return error instanceof TakingTasksError;
}

/** Answers with the error that names the cause: of Temporal's or the workflow's absence, or a NoWorkerError. */
export async function whyNoAnswer(
  client: Client,
  workflowId: string,
  signal: AbortSignal | null | undefined,
  cause: unknown,
  timeoutMs: number = EXAMINE_TIMEOUT_MS,
): Promise<Error> {
  try {
    return await temporalCall(client, { signal, timeoutMs }, () => examine(client, workflowId, cause));
  } catch (error) {
    return error as Error;
  }
}

async function examine(client: Client, workflowId: string, cause: unknown): Promise<Error> {
  const run = await readDescription(client, workflowId);
  if (run.closeTime && (await readUnbegunInput(client, workflowId, run.runId)) !== null) {
    // No worker can ever tell its state.
    return new JobTerminatedError(workflowId, 'ended before a worker began it', textOrNull(run.memo?.[MEMO.jobId]));
  }
  const failure = await readTaskFailure(client, run);
  if (failure !== null) {
    const attempt = run.raw.pendingWorkflowTask?.attempt;
    const remedy = lacksKey(failure)
      ? "add the key to the workers' PAYLOAD_KEYS_FILE"
      : 'run the release before, or mend this one';
    const again = `the workflow's task fails again and again (attempt ${attempt}: ${failure})`;
    const text = `${again}; ${remedy}: the job goes on by itself`;
    return new WorkflowTaskFailingError(workflowId, text, { cause });
  }
  const queue = JSON.stringify(run.taskQueue);
  const pollers = await livePollers(client, run.taskQueue, 'workflow');
  const [poller] = pollers;
  if (poller === undefined) {
    const text = `no worker polls the task queue ${queue}: start one there, or look whether workers listen elsewhere`;
    return new NoWorkerError(workflowId, text, { cause });
  }
  const version = pinnedVersion(run);
  if (version !== null && !pollers.some((one) => one.version === version)) {
    const text = `no worker of version ${version} polls the task queue ${queue}, and it is pinned to that version`;
    return new NoWorkerError(workflowId, `${text}: start one, or move it (docs/upgrades.md)`, { cause });
  }
  if (version === null && !pollers.some(({ isCurrent }) => isCurrent)) {
    const text = `workers poll the task queue ${queue}, but none of them has the current version: new runs wait`;
    return new NoWorkerError(workflowId, `${text}; make one current (docs/upgrades.md)`, { cause });
  }
  const seconds = Math.max(0, Math.round((Date.now() - poller.polledAt) / 1_000));
  const polled = `${poller.identity} polled the task queue ${queue} ${seconds} s ago`;
  const text = `no answer in time, though ${polled}: it is busy, stands still or has just ended`;
  const isAtWork = Date.now() - poller.polledAt < POLLED_MEANWHILE_MS;
  return new (isAtWork ? TakingTasksError : WorkerBusyError)(workflowId, text, { cause });
}

/** The version without which its tasks wait; null of one that goes on with any. */
function pinnedVersion({ raw }: WorkflowExecutionDescription): string | null {
  const { behavior, deploymentVersion: version } = raw.workflowExecutionInfo?.versioningInfo ?? {};
  return behavior === PINNED && version ? `${version.deploymentName}:${version.buildId}` : null;
}

// How a workflow task fails that Temporal repeats until a worker does it.

/** A failed workflow task is among the last events: its repetitions are not written. */
const LAST_EVENTS = 5;
const TEXT_CHARACTERS = 300;

/**
 * How the present workflow task failed before. Temporal's description counts its attempts and does not tell why. Null
 * where it is new, or only timed out as after the death of a worker.
 */
export async function readTaskFailure(client: Client, run: WorkflowExecutionDescription): Promise<string | null> {
  const attempt = run.raw.pendingWorkflowTask?.attempt ?? 1;
  if (attempt < 2) return null;
  const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: client.options.namespace,
    execution: { workflowId: run.workflowId, runId: run.runId },
    maximumPageSize: LAST_EVENTS,
  });
  const ends = (history?.events ?? []).filter(
    (event) => event.workflowTaskFailedEventAttributes ?? event.workflowTaskTimedOutEventAttributes,
  );
  const failed = ends[0]?.workflowTaskFailedEventAttributes;
  return failed ? (failed.failure?.message ?? 'no reason').slice(0, TEXT_CHARACTERS) : null;
}

/** A worker tells of a key that its file lacks, and one without a file, of the encoding. */
export function lacksKey(failure: string): boolean {
  return /^(the payload keys file |Unknown encoding: binary\/encrypted)/.test(failure);
}

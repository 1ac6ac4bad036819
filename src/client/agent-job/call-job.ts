/** Requests to the newest run of a job: what each failure of them means to the caller. */
import { WorkflowUpdateFailedError, type Client, type WorkflowHandle } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { JobState } from '../../contract.js';
import { JobEndedError, MessageRefusedError } from '../errors.js';
import { CALL_TIMEOUT_MS, temporalCall, type CallOptions } from '../temporal-call.js';
import { isNoAnswer } from '../temporal-errors.js';
import { isTakingTasks, whyNoAnswer } from './no-answer.js';
import { withPresentWait } from './present-wait.js';
import { readDescription } from './run-record.js';
import { queryState } from './state-query.js';

/** A worker that takes tasks answers in the end: behind a burst of starts that may last longer than one call. */
const PATIENCE_MS = 60_000;

/** Calls Temporal about a job; throws MessageRefusedError, JobEndedError and JobNotFoundError. */
export async function callJob<T>(
  client: Client,
  workflowId: string,
  options: CallOptions,
  call: (handle: WorkflowHandle) => Promise<T>,
): Promise<T> {
  try {
    return await temporalCall(client, options, () => call(client.workflow.getHandle(workflowId)));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw await whyNotFound(client, workflowId, options, error);
    if (error instanceof WorkflowUpdateFailedError) {
      throw new MessageRefusedError(workflowId, error.cause?.message ?? error.message, { cause: error });
    }
    throw error;
  }
}

/** A call that a worker answers; throws NoWorkerError, or one of its kinds, besides. */
export async function askWorker<T>(
  client: Client,
  workflowId: string,
  options: CallOptions,
  ask: (handle: WorkflowHandle) => Promise<T>,
): Promise<T> {
  try {
    return await callJob(client, workflowId, options, ask);
  } catch (error) {
    if (options.signal?.aborted || !isNoAnswer(error)) throw error;
    // Who sets no limit has time: a server that starts many jobs is slow to tell, too.
    const mostMs = options.timeoutMs == null ? CALL_TIMEOUT_MS : undefined;
    throw await whyNoAnswer(client, workflowId, options.signal, error, mostMs);
  }
}

/** Reads a job's state, with its present wait. */
export async function readState(client: Client, workflowId: string, options: CallOptions): Promise<JobState> {
  const startedAt = performance.now();
  const state = await askPatiently(client, workflowId, options);
  if (state.outcome !== null) return state;
  const mostMs = options.timeoutMs ?? PATIENCE_MS + CALL_TIMEOUT_MS;
  const leftMs = mostMs - (performance.now() - startedAt);
  return withPresentWait(client, workflowId, state, { signal: options.signal, timeoutMs: leftMs });
}

/** Without a limit of the caller's own, a question that waits behind other tasks of a worker at work is asked again. */
async function askPatiently(client: Client, workflowId: string, options: CallOptions): Promise<JobState> {
  for (const startedAt = performance.now(); ;) {
    try {
      return await askWorker(client, workflowId, options, () => queryState(client, workflowId));
    } catch (error) {
      const isOver = options.timeoutMs != null || performance.now() - startedAt >= PATIENCE_MS;
      if (isOver || !isTakingTasks(error)) throw error;
    }
  }
}

/** Temporal says the same of a workflow that never was and of one that has ended. */
async function whyNotFound(
  client: Client,
  workflowId: string,
  { signal }: CallOptions,
  cause: WorkflowNotFoundError,
): Promise<Error> {
  try {
    const run = await temporalCall(client, { signal }, () => readDescription(client, workflowId));
    return new JobEndedError(workflowId, run.status.name, { cause });
  } catch (error) {
    return error as Error;
  }
}

/** Requests to the newest run of a job: what each failure of them means to the caller. */
import { WorkflowUpdateFailedError, type Client, type WorkflowHandle } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { JobState } from '../../contract.js';
import { JobEndedError, MessageRefusedError } from '../errors.js';
import { CALL_TIMEOUT_MS, temporalCall, type CallOptions } from '../temporal-call.js';
import { isNoAnswer } from '../temporal-errors.js';
import { whyNoAnswer } from './no-answer.js';
import { withPresentWait } from './present-wait.js';
import { readDescription } from './run-record.js';
import { queryState } from './state-query.js';

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
    throw await whyNoAnswer(client, workflowId, options.signal, error);
  }
}

/** Reads a job's state, with its present wait. */
export async function readState(client: Client, workflowId: string, options: CallOptions): Promise<JobState> {
  const startedAt = performance.now();
  const state = await askWorker(client, workflowId, options, () => queryState(client, workflowId));
  if (state.outcome !== null) return state;
  const leftMs = (options.timeoutMs ?? CALL_TIMEOUT_MS) - (performance.now() - startedAt);
  return withPresentWait(client, workflowId, state, { signal: options.signal, timeoutMs: leftMs });
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

/** Requests to the newest run of a job, and the read of its state: what each failure of them means to the caller. */
import { QueryRejectedError, WorkflowClient, WorkflowUpdateFailedError } from '@temporalio/client';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { type QueryDefinition, WorkflowNotFoundError } from '@temporalio/common';
import { ENDED_BY } from '../../agent-job/closed-run.js';
import { type AgentJobResult, type JobOutcome, type JobState, jobStateQuery } from '../../contract.js';
import { defineQuery } from '../../contract/shared.js';
import { isOpen, pauseOf, unpauseText } from '../../temporal/visibility.js';
import { askWorkflow, queryAgain, workflowOptionsOf } from '../../temporal/workflow-clients.js';
import {
  JobEndedError,
  JobNotFoundError,
  JobPausedError,
  JobTerminatedError,
  MessageRefusedError,
  NoWorkerError,
} from '../errors.js';
import { START_TIMEOUT_MS, temporalCall } from '../temporal-call.js';
import type { CallOptions } from '../settings.js';
import { isClosedUnbegun, isNoAnswer } from '../temporal-errors.js';
import { readClosedRun, readDescription, type RunRecord } from './run-record.js';
import { toSummary } from './list.js';

/** Calls Temporal about a job; throws MessageRefusedError, JobEndedError and JobNotFoundError. */
export async function callJob<T>(
  client: Client,
  workflowId: string,
  options: CallOptions,
  call: (handle: WorkflowHandle) => Promise<T>,
  isAgain = false,
): Promise<T> {
  try {
    return await temporalCall(client, options, () => call(client.workflow.getHandle(workflowId)));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      const why = await whyNotFound(client, workflowId, options, error);
      if (why === null && !isAgain) return callJob(client, workflowId, options, call, true);
      throw why ?? new JobNotFoundError(workflowId, 'no such workflow was running yet', { cause: error });
    }
    if (error instanceof WorkflowUpdateFailedError) {
      throw new MessageRefusedError(workflowId, error.cause?.message ?? error.message, { cause: error });
    }
    throw error;
  }
}

/** A call that a worker answers; throws NoWorkerError besides, or JobPausedError. */
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
    throw await noAnswerError(client, workflowId, options.signal, error);
  }
}

/** Reads a job's state; by default a worker may take longer, as behind a burst of starts. */
export async function readState(client: Client, workflowId: string, options: CallOptions): Promise<JobState> {
  const { signal, timeoutMs = START_TIMEOUT_MS } = options;
  return askWorker(client, workflowId, { signal, timeoutMs }, () => queryState(client, workflowId));
}

/** Temporal says the same of a workflow that never was and of one that has ended; null if it has begun since. */
async function whyNotFound(
  client: Client,
  workflowId: string,
  { signal }: CallOptions,
  cause: WorkflowNotFoundError,
): Promise<Error | null> {
  try {
    const { status } = await temporalCall(client, { signal }, () => readDescription(client, workflowId));
    return isOpen(status.name) ? null : new JobEndedError(workflowId, status.name, { cause });
  } catch (error) {
    return error as Error;
  }
}

const DESCRIBE_TIMEOUT_MS = 3_000;

/** A NoWorkerError, or the error before it: Temporal does not answer, or the workflow never can, or is paused. */
export async function noAnswerError(
  client: Client,
  workflowId: string,
  signal: CallOptions['signal'],
  cause: unknown,
): Promise<Error> {
  try {
    return await temporalCall(client, { signal, timeoutMs: DESCRIBE_TIMEOUT_MS }, async () => {
      const run = await readDescription(client, workflowId);
      const { taskQueue } = run;
      const pause = pauseOf(run);
      if (pause) {
        const text = `the workflow is ${pause}; ${unpauseText(workflowId)}`;
        return new JobPausedError(workflowId, text, { cause });
      }
      if (isClosedUnbegun(cause)) {
        return new JobTerminatedError(workflowId, 'ended before a worker began it', toSummary(run).jobId);
      }
      const text = `no worker of the task queue ${JSON.stringify(taskQueue)} answered in time`;
      const remedy = '"agent-jobs doctor" checks the workers, and "agent-jobs attention" lists workflows that fail';
      return new NoWorkerError(workflowId, `${text}: ${remedy}`, { cause });
    });
  } catch (error) {
    return error as Error;
  }
}

// Reads a job's state from a worker. No workflow knows that it was terminated or met a time-out: how a closed run
// ended is read from Temporal then.

/** Asks the newest run; a running one costs one request. */
async function queryState(client: Client, workflowId: string): Promise<JobState> {
  try {
    return await askRunning(client, workflowId, jobStateQuery);
  } catch (error) {
    if (!(error instanceof QueryRejectedError)) throw error;
  }
  const { runId, status } = await readDescription(client, workflowId);
  const isClosed = !isOpen(status.name);
  const run = { workflowId, runId };
  const state = await (isClosed ? askClosedRun(client, run) : askWorkflow(client, run, jobStateQuery));
  if (state.outcome !== null || !isClosed) return state;
  return ended(state, ENDED_BY[status.name] ?? null);
}

const closedStateQuery = defineQuery<JobState, [{ isClosed: true }]>(jobStateQuery.name);

/** As it was when a worker last took what had come: of what came later it says nothing. */
export function askClosedRun(client: Client, run: { workflowId: string; runId: string }): Promise<JobState> {
  return askWorkflow(client, run, closedStateQuery, { isClosed: true });
}

/** Asks the newest run while it is open; throws QueryRejectedError of one that is closed, or paused. */
export function askRunning<Answer, Args extends unknown[]>(
  client: Client,
  workflowId: string,
  query: QueryDefinition<Answer, Args>,
  ...args: Args
): Promise<Answer> {
  const workflows = new WorkflowClient({ ...workflowOptionsOf(client), queryRejectCondition: 'NOT_OPEN' });
  return queryAgain(() => workflows.getHandle(workflowId).query(query, ...args));
}

/**
 * The last state of a job that ended while no worker runs: by the result, or the last one that was read, ended. Null
 * if neither is known: a failure has nothing of follow-ups, and an empty list would be untrue.
 */
export async function stateAtEnd(client: Client, run: RunRecord, last: JobState | null): Promise<JobState | null> {
  const { end, result } = await readClosedRun(client, run);
  if (result !== null) return fromResult(result);
  return last && ended(last, end === 'OtherFailure' ? null : (end as JobOutcome));
}

function ended(last: JobState, outcome: JobOutcome | null): JobState {
  return { ...last, phase: 'done', waiting: null, outcome };
}

function fromResult({ finishedAt, ...facts }: AgentJobResult): JobState {
  return { ...facts, phase: 'done', unknown: null, waiting: null, lastChangeAt: finishedAt };
}

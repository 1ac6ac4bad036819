/** Waiting for a job's end: its result, or a typed error for each way to end without one. */
import { WorkflowFailedError, type Client } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, WorkflowNotFoundError } from '@temporalio/common';
import {
  FAILURE,
  type AgentJobResult,
  type CreateRejectedDetails,
  type UnknownOutcomeDetails,
} from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import {
  CreateRejectedError,
  JobCanceledError,
  JobFailedError,
  JobNotFoundError,
  JobTerminatedError,
  UnknownOutcomeError,
} from '../errors.js';
import type { Logger } from '../settings.js';
import { longWait } from '../temporal-call.js';
import { isOutage } from '../temporal-errors.js';
import { listEarlierRuns, readClosedRun, readRun, readStartInput, type RunRecord } from './run-record.js';

/** Waits for a job's end, over continue-as-new and outages of Temporal; throws the typed error of each failure. */
export function waitForResult(
  client: Client,
  workflowId: string,
  signal?: AbortSignal | null,
  logger?: Logger,
): Promise<AgentJobResult> {
  return longWait(client, signal, () => readResult(client, workflowId), { ...(logger && { logger }) });
}

async function readResult(client: Client, workflowId: string): Promise<AgentJobResult> {
  try {
    return (await client.workflow.result(workflowId)) as AgentJobResult;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      throw new JobNotFoundError(workflowId, 'no such workflow', { cause: error });
    }
    if (!(error instanceof WorkflowFailedError)) throw error;
    throw await toTypedError(client, workflowId, error);
  }
}

async function toTypedError(client: Client, workflowId: string, error: WorkflowFailedError): Promise<Error> {
  const { cause } = error;
  const refusal = cause instanceof ApplicationFailure ? toRefusal(workflowId, cause) : null;
  if (refusal !== null) return refusal;
  const run = await readRun(client, workflowId);
  const options = { cause, prLink: run.prLink, lastResult: await readLastResult(client, run) };
  if (cause instanceof ApplicationFailure) return fromFailure(workflowId, cause, options);
  if (cause instanceof CancelledFailure) return new JobCanceledError(workflowId, run.jobId, options);
  return new JobTerminatedError(workflowId, cause?.message ?? error.message, run.jobId, options);
}

/** The newest result of the runs before this one, where it goes on with a job that had ended; else null. */
async function readLastResult(client: Client, run: RunRecord): Promise<AgentJobResult | null> {
  try {
    const input = await readStartInput(client, run.workflowId, run.firstRunId);
    if (input?.jobId == null) return null;
    for (const runId of (await listEarlierRuns(client, run))?.all ?? []) {
      const { result } = await readClosedRun(client, { workflowId: run.workflowId, runId });
      if (result !== null) return result;
    }
  } catch (error) {
    // The wait goes on after an outage. Whatever else is wrong with an earlier run, this one's end is told.
    if (isOutage(error)) throw error;
  }
  return null;
}

/** For a failure that has lost its details, such as one that a codec can't decode. */
const NO_DETAILS = {
  createRejected: { status: 0, error: 'no details are left' } satisfies CreateRejectedDetails,
  unknownOutcome: {
    kind: 'create',
    jobId: null,
    followUpId: null,
    reason: 'no details are left',
  } satisfies UnknownOutcomeDetails,
};

/** Null where a job was created, or may have been. */
function toRefusal(workflowId: string, failure: ApplicationFailure): Error | null {
  const [details] = failure.details ?? [];
  if (failure.type === FAILURE.invalidInput) {
    return toInvalidInput(failure.message, (details as { field?: string } | undefined)?.field);
  }
  if (failure.type !== FAILURE.createRejected) return null;
  const told = { ...NO_DETAILS.createRejected, ...(details as object) };
  return new CreateRejectedError(workflowId, told, { cause: failure });
}

function fromFailure(workflowId: string, failure: ApplicationFailure, options: object): Error {
  if (failure.type !== FAILURE.unknownOutcome) return new JobFailedError(workflowId, failure.message, options);
  const [details] = failure.details ?? [];
  return new UnknownOutcomeError(workflowId, { ...NO_DETAILS.unknownOutcome, ...(details as object) }, options);
}

/** The message reads "<field> must …". */
function toInvalidInput(message: string, field = 'input'): InvalidInputError {
  return new InvalidInputError(field, message.startsWith(`${field} `) ? message.slice(field.length + 1) : message);
}

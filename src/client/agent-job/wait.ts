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
import type { Logger } from '../logger.js';
import { longWait } from '../temporal-call.js';
import { readRun } from './run-record.js';

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
  if (cause instanceof ApplicationFailure) return fromFailure(workflowId, cause);
  const { jobId } = await readRun(client, workflowId);
  if (cause instanceof CancelledFailure) return new JobCanceledError(workflowId, jobId, { cause });
  return new JobTerminatedError(workflowId, cause?.message ?? error.message, jobId, { cause });
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

function fromFailure(workflowId: string, failure: ApplicationFailure): Error {
  const [details] = failure.details ?? [];
  const options = { cause: failure };
  switch (failure.type) {
    case FAILURE.invalidInput:
      return toInvalidInput(failure.message, (details as { field?: string } | undefined)?.field);
    case FAILURE.createRejected:
      return new CreateRejectedError(workflowId, { ...NO_DETAILS.createRejected, ...(details as object) }, options);
    case FAILURE.unknownOutcome:
      return new UnknownOutcomeError(workflowId, { ...NO_DETAILS.unknownOutcome, ...(details as object) }, options);
    default:
      return new JobFailedError(workflowId, failure.message, options);
  }
}

/** The message reads "<field> must …". */
function toInvalidInput(message: string, field = 'input'): InvalidInputError {
  return new InvalidInputError(field, message.startsWith(`${field} `) ? message.slice(field.length + 1) : message);
}

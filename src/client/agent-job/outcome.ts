import { WorkflowContinuedAsNewError, WorkflowFailedError, type Client } from '@temporalio/client';
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
import { longWait } from '../temporal-call.js';
import { readRun } from './run-record.js';

/** Waits for a job's end, over continue-as-new and outages of Temporal; throws the typed error of each failure. */
export function waitForResult(client: Client, workflowId: string, signal?: AbortSignal): Promise<AgentJobResult> {
  return longWait(client, signal, () => readResult(client, workflowId));
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

/** The result of one closed run, or the failure that it ended with. */
export async function readEnd(
  client: Client,
  workflowId: string,
  runId: string,
): Promise<{ result: AgentJobResult } | { failureType: string | null }> {
  try {
    const result = await client.workflow.result(workflowId, runId, { followRuns: false });
    return { result: result as AgentJobResult };
  } catch (error) {
    // It continued as new, which the list of runs did not show yet.
    if (error instanceof WorkflowContinuedAsNewError) return { failureType: null };
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause } = error;
    return { failureType: cause instanceof ApplicationFailure ? (cause.type ?? null) : null };
  }
}

/** These failures mean that surely no job was made. */
export function isJobless(failureType: string | null): boolean {
  return failureType === FAILURE.invalidInput || failureType === FAILURE.createRejected;
}

async function toTypedError(client: Client, workflowId: string, error: WorkflowFailedError): Promise<Error> {
  const { cause } = error;
  if (cause instanceof ApplicationFailure) return fromFailure(workflowId, cause);
  const { jobId } = await readRun(client, workflowId);
  if (cause instanceof CancelledFailure) return new JobCanceledError(workflowId, jobId, { cause });
  return new JobTerminatedError(workflowId, cause?.message ?? error.message, jobId, { cause });
}

/** Where a failure has lost its details, as one that a codec can't decode. */
const REFUSED: CreateRejectedDetails = { status: 0, error: 'no details are left' };
const IN_DOUBT: UnknownOutcomeDetails = {
  kind: 'create',
  jobId: null,
  followUpId: null,
  reason: 'no details are left',
};

function fromFailure(workflowId: string, failure: ApplicationFailure): Error {
  const [details] = failure.details ?? [];
  switch (failure.type) {
    case FAILURE.invalidInput:
      return toInvalidInput(failure.message, (details as { field?: string } | undefined)?.field);
    case FAILURE.createRejected:
      return new CreateRejectedError(workflowId, { ...REFUSED, ...(details as object) }, { cause: failure });
    case FAILURE.unknownOutcome:
      return new UnknownOutcomeError(workflowId, { ...IN_DOUBT, ...(details as object) }, { cause: failure });
    default:
      return new JobFailedError(workflowId, failure.message, { cause: failure });
  }
}

/** The message reads "<field> must …". */
function toInvalidInput(message: string, field = 'input'): InvalidInputError {
  return new InvalidInputError(field, message.startsWith(`${field} `) ? message.slice(field.length + 1) : message);
}

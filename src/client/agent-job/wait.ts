/** Waiting for a job's end: its result, or a typed error for each way to end without one. */
import { WorkflowFailedError, type Client } from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import { endOf } from '../../agent-job/closed-run.js';
import type { AgentJobResult } from '../../contract.js';
import { InvalidInputError } from '../../contract/errors.js';
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
  const end = endOf(cause);
  const [details] = (cause instanceof ApplicationFailure && cause.details) || [];
  const message = cause?.message ?? error.message;
  if (end === 'InvalidInput') return toInvalidInput(message, details as { field?: string } | undefined);
  if (end === 'CreateRejected') {
    return new CreateRejectedError(workflowId, { ...NO_DETAILS.createRejected, ...(details as object) }, { cause });
  }
  const run = await readRun(client, workflowId);
  const { jobId, prLink } = run;
  const options = { cause, prLink, lastResult: await readLastResult(client, run) };
  switch (end) {
    case 'UnknownOutcome':
      return new UnknownOutcomeError(workflowId, { ...NO_DETAILS.unknownOutcome, ...(details as object) }, options);
    case 'OtherFailure':
      return new JobFailedError(workflowId, message, options);
    case 'Canceled':
      return new JobCanceledError(workflowId, jobId, options);
    default:
      return new JobTerminatedError(workflowId, message, jobId, options);
  }
}

/** The newest result of the runs before this one, where it goes on with a job that had ended; else null. */
async function readLastResult(client: Client, run: RunRecord): Promise<AgentJobResult | null> {
  try {
    const input = await readStartInput(client, run);
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
  createRejected: { status: 0, error: 'no details are left' },
  unknownOutcome: { kind: 'create', jobId: null, followUpId: null, reason: 'no details are left' },
} as const;

/** The message reads "<field> must …". */
function toInvalidInput(message: string, { field = 'input' }: { field?: string } = {}): InvalidInputError {
  return new InvalidInputError(field, message.startsWith(`${field} `) ? message.slice(field.length + 1) : message);
}

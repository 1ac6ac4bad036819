/** What a job without a result means to the workflow that wants it done. Pure and safe in workflow code. */
import { ApplicationFailure } from '@temporalio/common';
import { FAILURE, JOIN_FAILURE } from '../contract.js';
import { InvalidInputError } from '../contract/input-checks.js';
import { endOf, type RunEnd } from './closed-run.js';

/** The failure of a job that was not started: any other error would fail the workflow task, again and again. */
export function invalidInputFailure({ message, field }: InvalidInputError): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, FAILURE.invalidInput, { field });
}

/** Makes a check of what a caller sent, and such a failure of what it refuses. */
export function refusing<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw asRefusal(error);
  }
}

/** An InvalidInputError as callers get it; any other error as it is. */
export function asRefusal(error: unknown): unknown {
  return error instanceof InvalidInputError ? invalidInputFailure(error) : error;
}

/** The failure of a job that ended: its own, or one that says how Temporal ended it. */
export function endWithoutResult(workflowId: string, cause: unknown): ApplicationFailure {
  if (cause instanceof ApplicationFailure) {
    const { message, type, details } = cause;
    return ApplicationFailure.nonRetryable(message, type, ...(details ?? []));
  }
  const end = endOf(cause);
  const why = end === JOIN_FAILURE.terminated && cause instanceof Error && cause.message ? ` (${cause.message})` : '';
  return ApplicationFailure.nonRetryable(`the job ${HOW[end]}${why} [workflowId=${workflowId}]`, end);
}

const HOW: Partial<Record<RunEnd, string>> = {
  [JOIN_FAILURE.canceled]: 'was cancelled',
  [JOIN_FAILURE.timedOut]: 'was ended by a time-out of Temporal',
  [JOIN_FAILURE.terminated]: 'was terminated',
};

/** The failure of an activity that did what it should: the worker logs no warning. */
export function expected({ message, type, details }: Pick<ApplicationFailure, 'message' | 'type' | 'details'>) {
  const failure = ApplicationFailure.create({
    message,
    nonRetryable: true,
    category: 'BENIGN',
    ...(type && { type }),
    ...(details && { details }),
  });
  failure.stack = '';
  return failure;
}

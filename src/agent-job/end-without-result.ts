/** What a job without a result means to the workflow that wants it done. Pure and safe in workflow code. */
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common';
import { FAILURE, JOIN_FAILURE } from '../contract.js';
import { InvalidInputError } from '../contract/input-checks.js';

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
  const [type, how] = endOf(cause);
  return ApplicationFailure.nonRetryable(`the job ${how} [workflowId=${workflowId}]`, type);
}

function endOf(cause: unknown): [type: string, how: string] {
  if (cause instanceof CancelledFailure) return [JOIN_FAILURE.canceled, 'was cancelled'];
  if (cause instanceof TimeoutFailure) return [JOIN_FAILURE.timedOut, 'was ended by a time-out of Temporal'];
  const why = cause instanceof TerminatedFailure && cause.message ? ` (${cause.message})` : '';
  return [JOIN_FAILURE.terminated, `was terminated${why}`];
}

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

/**
 * Decides what a closed run of `agentJob` allows, for starts, follow-ups and parent workflows. Safe in workflow code.
 * How a client acts on that without a race: src/client/agent-job/start-or-join.ts.
 */
import { ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { FAILURE, JOIN_FAILURE, type JobOutcome, type Outcome } from '../contract.js';
import { InvalidInputError } from '../contract/errors.js';
import { endNamed, JOB_FAILURE, WORDS } from '../contract/words.js';

/**
 * `start again`: surely no job was made, so the id may be started with any input. `go on`: a follow-up goes on with the
 * job in a new run. `nothing`: the run stays the last one. After the last two, a start with the same input joins.
 */
export type Allowed = 'start again' | 'go on' | 'nothing';

/** How a run closed: with a result, whatever its outcome, as a row of the table of ends says, or by another failure. */
export type RunEnd = 'result' | Exclude<JobOutcome, Outcome> | 'OtherFailure';

/** What a closed run allows; `jobId` is null if no job is known. */
export function allowedAfter(end: RunEnd, jobId: string | null): Allowed {
  if (endNamed(end)?.job !== 'no') return jobId === null ? 'nothing' : 'go on';
  // A known job is an earlier run's: a follow-up to that run has started this one.
  return jobId === null ? 'start again' : 'nothing';
}

/** The end that the failure of a closed run means. */
export function endOf(cause: unknown): RunEnd {
  const failures: readonly RunEnd[] = Object.values(JOB_FAILURE);
  if (cause instanceof ApplicationFailure) return failures.find((type) => type === cause.type) ?? 'OtherFailure';
  if (cause instanceof CancelledFailure) return 'Canceled';
  return cause instanceof TimeoutFailure ? 'TimedOut' : 'Terminated';
}

/** The statuses of Temporal that say how a job ended. */
export const ENDED_BY: Readonly<Record<string, JobOutcome & RunEnd>> = Object.fromEntries(
  WORDS.ends.flatMap(({ status, word }) => (status === 'COMPLETED' || status === 'FAILED' ? [] : [[status, word]])),
);

/** The failure of a job that was not started: any other error would fail the workflow task, again and again. */
export function invalidInputFailure({ message, field }: InvalidInputError): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, FAILURE.invalidInput, { field });
}

/** Checks what a caller sent. What is invalid ends in the failure that callers get. */
export function validated<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw asInputFailure(error);
  }
}

/** An InvalidInputError as callers get it; any other error as it is. */
export function asInputFailure(error: unknown): unknown {
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
  return ApplicationFailure.nonRetryable(`the job ${endNamed(end)?.text}${why} [workflowId=${workflowId}]`, end);
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

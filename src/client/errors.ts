/** What our client throws: a class for each cause that callers treat differently. */
import type { CreateRejectedDetails, UnknownOutcomeDetails } from '../contract.js';

/** Base of all errors that name a job's workflow. */
export abstract class AgentJobError extends Error {
  readonly workflowId: string;
  constructor(workflowId: string, message: string, options?: ErrorOptions) {
    super(`${message} [workflowId=${workflowId}]`, options);
    this.workflowId = workflowId;
  }
}

/** The key is taken by a job with another input; choose another key, or repeat the first input. */
export class KeyConflictError extends AgentJobError {
  override readonly name = 'KeyConflictError';
}

/** No such workflow: never started, in another namespace, or closed so long ago that Temporal no longer keeps it. */
export class JobNotFoundError extends AgentJobError {
  override readonly name: string = 'JobNotFoundError';
}

/** The workflow has ended, and what was asked is for one that runs; `status` is Temporal's, such as `COMPLETED`. */
export class JobEndedError extends JobNotFoundError {
  override readonly name = 'JobEndedError';
  readonly status: string;
  constructor(workflowId: string, status: string, options?: ErrorOptions) {
    super(workflowId, `the workflow has ended (${status.toLowerCase()})`, options);
    this.status = status;
  }
}

/** The upstream refused to create the job; the key may be used again, with any input. */
export class CreateRejectedError extends AgentJobError implements CreateRejectedDetails {
  override readonly name = 'CreateRejectedError';
  readonly status: number;
  /** The upstream's own text. */
  readonly error: string;
  constructor(workflowId: string, details: CreateRejectedDetails, options?: ErrorOptions) {
    super(workflowId, `the upstream refused to create the job: ${details.status} ${details.error}`.trimEnd(), options);
    this.status = details.status;
    this.error = details.error;
  }
}

/** A write may or may not have reached the upstream, and the job's policy was not to wait for a person. */
export class UnknownOutcomeError extends AgentJobError {
  override readonly name = 'UnknownOutcomeError';
  readonly details: UnknownOutcomeDetails;
  constructor(workflowId: string, details: UnknownOutcomeDetails, options?: ErrorOptions) {
    super(workflowId, `nobody knows whether the upstream took the ${details.kind}: ${details.reason}`, options);
    this.details = details;
  }
}

/** The workflow ended from outside; where `jobId` is not null the remote job goes on. */
abstract class EndedFromOutsideError extends AgentJobError {
  readonly jobId: string | null;
  constructor(workflowId: string, reason: string, jobId: string | null, options?: ErrorOptions) {
    super(workflowId, jobId === null ? reason : `${reason}; the remote job ${jobId} goes on`, options);
    this.jobId = jobId;
  }
}

/** The workflow was cancelled. */
export class JobCanceledError extends EndedFromOutsideError {
  override readonly name = 'JobCanceledError';
  constructor(workflowId: string, jobId: string | null, options?: ErrorOptions) {
    super(workflowId, 'canceled', jobId, options);
  }
}

/** The workflow was ended (terminated, or by a time-out of Temporal's own) without a result. */
export class JobTerminatedError extends EndedFromOutsideError {
  override readonly name = 'JobTerminatedError';
}

/** The workflow failed in a way that the contract does not know; `cause` holds Temporal's error. */
export class JobFailedError extends AgentJobError {
  override readonly name = 'JobFailedError';
}

/** The ended workflow never knew a job, so a follow-up has nowhere to go. */
export class NoJobError extends AgentJobError {
  override readonly name = 'NoJobError';
}

/** Attaching anew could send a follow-up twice: the ids that an ended run used up can't be read. */
export class UsedIdsUnknownError extends AgentJobError {
  override readonly name = 'UsedIdsUnknownError';
}

/** The workflow refused the message; nothing was queued or settled. */
export class MessageRefusedError extends AgentJobError {
  override readonly name = 'MessageRefusedError';
}

/** The follow-up may or may not have been queued; repeat it with the same `id`, which is sent at most once. */
export class FollowUpUnconfirmedError extends AgentJobError {
  override readonly name = 'FollowUpUnconfirmedError';
  readonly id: string;
  constructor(workflowId: string, id: string, message: string, options?: ErrorOptions) {
    super(workflowId, message, options);
    this.id = id;
  }
}

/** No worker responded to a query or update; where it is no more special error, none polls the job's task queue. */
export class NoWorkerError extends AgentJobError {
  override readonly name: string = 'NoWorkerError';
}

/**
 * A worker polled the job's task queue a moment ago and did not respond in time: it is busy, suspended, or has just
 * ended.
 */
export class WorkerBusyError extends NoWorkerError {
  override readonly name = 'WorkerBusyError';
}

/** The job's workflow task fails again and again: a bug, or a release that does not fit the job's history. */
export class WorkflowTaskFailingError extends NoWorkerError {
  override readonly name = 'WorkflowTaskFailingError';
}

/** Temporal could not be reached, or refused the call. */
export class TemporalCallError extends Error {
  override readonly name: string = 'TemporalCallError';
}

/** Temporal did not respond: it is not reachable, or took longer than the call may. The same call may work later. */
export class TemporalUnavailableError extends TemporalCallError {
  override readonly name = 'TemporalUnavailableError';
}

/** No such Schedule: never made, removed, or in another namespace. */
export class ScheduleMissingError extends Error {
  override readonly name = 'ScheduleMissingError';
  constructor(scheduleId: string) {
    super(`there is no Schedule ${scheduleId}; "agent-jobs schedule" makes one`);
  }
}

/** The export ended without a snapshot; `type` is the workflow's failure type, such as `ExportRejected`. */
export class ExportFailedError extends AgentJobError {
  override readonly name = 'ExportFailedError';
  readonly type: string;
  /** ISO 8601: when the request budget allows the next request; absent where it may follow at once. */
  readonly nextRequestAt?: string;
  constructor(workflowId: string, type: string, message: string, options?: ErrorOptions & { nextRequestAt?: string }) {
    super(workflowId, `${type}: ${message}`, options);
    this.type = type;
    if (options?.nextRequestAt !== undefined) this.nextRequestAt = options.nextRequestAt;
  }
}

/** The export was cancelled. */
export class ExportCanceledError extends AgentJobError {
  override readonly name = 'ExportCanceledError';
  constructor(workflowId: string, options?: ErrorOptions) {
    super(workflowId, 'canceled', options);
  }
}

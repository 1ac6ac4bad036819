/**
 * What our client throws: a class for each cause that callers treat differently. temporal-errors.ts decides what an
 * error of the SDK means, and whether the call may be tried again.
 */
import { followUpConflictText } from '../agent-job/input.js';
import type { CreateRejectedDetails, UnknownOutcomeDetails } from '../contract.js';
import { AgentJobsError, type AgentJobsErrorOptions } from '../contract/errors.js';

export {
  AgentJobsError,
  type AgentJobsErrorCode,
  type AgentJobsErrorOptions,
  InvalidInputError,
  PayloadKeysError,
} from '../contract/errors.js';

/** Base of all errors that name a job's workflow. */
export abstract class AgentJobError extends AgentJobsError {
  readonly workflowId: string;
  constructor(workflowId: string, message: string, options?: AgentJobsErrorOptions) {
    super(`${message} [workflowId=${workflowId}]`, options);
    this.workflowId = workflowId;
  }
}

/** The key is taken by a job with another input; choose another key, or repeat the first input. */
export class KeyConflictError extends AgentJobError {
  override readonly name = 'KeyConflictError';
  override readonly code = 'KEY_CONFLICT';
}

/** No such workflow: never started, in another namespace, or closed before the time for which Temporal keeps it. */
export class JobNotFoundError extends AgentJobError {
  override readonly name: string = 'JobNotFoundError';
  override readonly code: 'JOB_NOT_FOUND' | 'JOB_ENDED' = 'JOB_NOT_FOUND';
}

/** The workflow has ended, and the call is for one that runs; `workflowStatus` is as in a list of jobs. */
export class JobEndedError extends JobNotFoundError {
  override readonly name = 'JobEndedError';
  override readonly code = 'JOB_ENDED';
  readonly workflowStatus: string;
  constructor(workflowId: string, workflowStatus: string, options?: AgentJobsErrorOptions) {
    super(workflowId, `the workflow has ended (${workflowStatus.toLowerCase()})`, options);
    this.workflowStatus = workflowStatus;
  }
}

/** The upstream rejected the create; the key may be used again, with any input. */
export class CreateRejectedError extends AgentJobError implements CreateRejectedDetails {
  override readonly name = 'CreateRejectedError';
  override readonly code = 'CREATE_REJECTED';
  readonly status: number;
  /** The upstream's own text. */
  readonly error: string;
  constructor(workflowId: string, details: CreateRejectedDetails, options?: AgentJobsErrorOptions) {
    super(workflowId, `the upstream rejected the create: ${details.status} ${details.error}`.trimEnd(), options);
    this.status = details.status;
    this.error = details.error;
  }
}

interface JobRemains {
  prLink?: string | null;
}

/** The run ended without a result of its own. */
abstract class NoResultError extends AgentJobError {
  /** The pull request, as far as the newest run knew it. */
  readonly prLink: string | null;
  constructor(workflowId: string, message: string, { prLink, ...options }: AgentJobsErrorOptions & JobRemains = {}) {
    super(workflowId, message, options);
    this.prLink = prLink ?? null;
  }
}

/** A write may or may not have reached the upstream, and the job's policy was not to wait for a person. */
export class UnknownOutcomeError extends NoResultError {
  override readonly name = 'UnknownOutcomeError';
  override readonly code = 'UNKNOWN_OUTCOME';
  readonly details: UnknownOutcomeDetails;
  constructor(workflowId: string, details: UnknownOutcomeDetails, options?: AgentJobsErrorOptions & JobRemains) {
    super(workflowId, `the upstream may or may not have taken the ${details.kind}: ${details.reason}`, options);
    this.details = details;
  }
}

/** The workflow was ended from outside. If `jobId` is not null, the remote job goes on. */
abstract class EndedFromOutsideError extends NoResultError {
  readonly jobId: string | null;
  constructor(workflowId: string, reason: string, jobId: string | null, options?: AgentJobsErrorOptions & JobRemains) {
    super(workflowId, jobId === null ? reason : `${reason}; the remote job ${jobId} goes on`, options);
    this.jobId = jobId;
  }
}

/** The workflow was cancelled. */
export class JobCanceledError extends EndedFromOutsideError {
  override readonly name = 'JobCanceledError';
  override readonly code = 'JOB_CANCELED';
  constructor(workflowId: string, jobId: string | null, options?: AgentJobsErrorOptions & JobRemains) {
    super(workflowId, 'canceled', jobId, options);
  }
}

/** The workflow was ended (terminated, or by a time-out of Temporal's own) without a result. */
export class JobTerminatedError extends EndedFromOutsideError {
  override readonly name = 'JobTerminatedError';
  override readonly code = 'JOB_TERMINATED';
}

/** The workflow failed in a way that the contract does not know; `cause` holds Temporal's error. */
export class JobFailedError extends NoResultError {
  override readonly name = 'JobFailedError';
  override readonly code = 'JOB_FAILED';
}

/** The ended workflow never knew a job, so a follow-up has nowhere to go. */
export class NoJobError extends AgentJobError {
  override readonly name = 'NoJobError';
  override readonly code = 'NO_JOB';
}

/** The ids that an ended run used can't be read: one could be sent twice. `retryable` if a worker may know them. */
export class UsedIdsUnknownError extends AgentJobError {
  override readonly name = 'UsedIdsUnknownError';
  override readonly code = 'USED_IDS_UNKNOWN';
}

/** The workflow declined the message; nothing was queued or resolved. */
export class MessageRefusedError extends AgentJobError {
  override readonly name = 'MessageRefusedError';
  override readonly code = 'MESSAGE_REFUSED';
}

/** The follow-up's id was taken before with another prompt, and this one was not sent; choose another id. */
export class FollowUpConflictError extends AgentJobError {
  override readonly name = 'FollowUpConflictError';
  override readonly code = 'FOLLOW_UP_CONFLICT';
  readonly id: string;
  constructor(workflowId: string, id: string, options?: AgentJobsErrorOptions) {
    super(workflowId, followUpConflictText(id), options);
    this.id = id;
  }
}

/**
 * The follow-up may or may not have been queued; repeat the follow-up with the same `id`, which is sent at most once.
 * The error is `retryable` if the call gave that id: otherwise the same call would send another follow-up.
 */
export class FollowUpUnconfirmedError extends AgentJobError {
  override readonly name = 'FollowUpUnconfirmedError';
  override readonly code = 'FOLLOW_UP_UNCONFIRMED';
  readonly id: string;
  constructor(workflowId: string, id: string, message: string, options?: AgentJobsErrorOptions) {
    super(workflowId, message, { retryable: true, ...options });
    this.id = id;
  }
}

/**
 * No worker of the job's task queue answered a query or update in time: none runs, all are busy, or the workflow's task
 * fails. The error is `retryable`, unless the call may have resolved a write in doubt that it did not name.
 */
export class NoWorkerError extends AgentJobError {
  override readonly name: string = 'NoWorkerError';
  override readonly code: 'NO_WORKER' | 'JOB_PAUSED' = 'NO_WORKER';
  constructor(workflowId: string, message: string, options?: AgentJobsErrorOptions) {
    super(workflowId, message, { retryable: true, ...options });
  }
}

/** The workflow is paused, and no worker may answer for it until a person unpauses it. */
export class JobPausedError extends NoWorkerError {
  override readonly name = 'JobPausedError';
  override readonly code = 'JOB_PAUSED';
}

/** Temporal could not be reached, or failed the call; `retryable` if Temporal gave no definite answer. */
export class TemporalCallError extends AgentJobsError {
  override readonly name: string = 'TemporalCallError';
  override readonly code: 'TEMPORAL_CALL' | 'TEMPORAL_UNAVAILABLE' = 'TEMPORAL_CALL';
}

/** Temporal did not respond: it is not reachable, or took longer than the call may. The same call may work later. */
export class TemporalUnavailableError extends TemporalCallError {
  override readonly name = 'TemporalUnavailableError';
  override readonly code = 'TEMPORAL_UNAVAILABLE';
  constructor(message: string, options?: AgentJobsErrorOptions) {
    super(message, { retryable: true, ...options });
  }
}

/** The export ended without a snapshot; `type` is the workflow's failure type, such as `ExportRejected`. */
export class ExportFailedError extends AgentJobError {
  override readonly name = 'ExportFailedError';
  override readonly code = 'EXPORT_FAILED';
  readonly type: string;
  constructor(workflowId: string, type: string, message: string, options?: AgentJobsErrorOptions) {
    super(workflowId, `${type}: ${message}`, options);
    this.type = type;
  }
}

/** The export was cancelled. */
export class ExportCanceledError extends AgentJobError {
  override readonly name = 'ExportCanceledError';
  override readonly code = 'EXPORT_CANCELED';
  constructor(workflowId: string, options?: AgentJobsErrorOptions) {
    super(workflowId, 'canceled', options);
  }
}

/** What callers do with one job. An interface, so that a plain object can stand in for it in their tests. */
import type { AgentJobResult, Attribution, FollowUpAnswer, JobState, ResolveUnknownInput } from '../../contract.js';
import type { CallOptions, WaitOptions } from '../temporal-call.js';
import type { FollowUpOptions } from './follow-up.js';

/** One job, by its workflow id: always its newest run, so that a follow-up to an ended job is seen too. */
export interface JobHandle {
  readonly workflowId: string;
  /** Null where the workflow id is of the caller's own choice. */
  readonly projectId: string | null;
  /** Null where the job was attached without one, or the workflow id is of the caller's own choice. */
  readonly key: string | null;
  /** The newest run, as it was when the start was answered; null of a handle from elsewhere. */
  readonly runId: string | null;
  /**
   * The job in Temporal's web UI, which leads to the newest run, whenever it is opened; null where nobody knows where
   * that is.
   */
  readonly url: string | null;
  /** Whether the start that answered with this handle made the workflow; undefined of a handle from elsewhere. */
  readonly isNew: boolean | undefined;

  /**
   * Queues a follow-up; of a job whose workflow has ended, a new run attached to the same job takes it. Throws
   * InvalidInputError, MessageRefusedError, NoJobError, UsedIdsUnknownError, or FollowUpUnconfirmedError where nobody
   * knows whether it was queued.
   */
  followUp(prompt: string, options?: FollowUpOptions): Promise<{ id: string }>;

  /**
   * As `followUp`, and waits until the upstream accepted it, refused it, or its outcome is unknown. Answers `queued`
   * where that must wait, or takes longer than a minute.
   */
  sendFollowUp(prompt: string, options?: FollowUpOptions): Promise<FollowUpAnswer>;

  /**
   * Reads the job's present state, of a closed workflow too while a worker runs and its history is kept. Throws
   * NoWorkerError, or one of its kinds, where no worker responds, and JobTerminatedError of a workflow that ended
   * before a worker began it.
   */
  state(options?: CallOptions): Promise<JobState>;

  /**
   * Reads the job at once, at most once a second and never against a `Retry-After`; throws JobEndedError. `by` and
   * `note` stay in Temporal's history, as the argument of the signal.
   */
  pollNow(options?: CallOptions & Attribution): Promise<void>;

  /**
   * Settles a write in doubt as a person decides. Throws MessageRefusedError where the action does not fit the present
   * write in doubt, and JobEndedError. Throws NoWorkerError, or one of its kinds, where no worker responds: then it may
   * have been settled. `adopt` reads the job first and has 75 seconds, not 10.
   */
  resolve(resolution: ResolveUnknownInput, options?: CallOptions): Promise<JobState>;

  /**
   * Asks the workflow to end; a write in flight is finished first, and the remote job goes on. `by` and `note` stay in
   * Temporal's history as the request's identity and reason, which no payload codec encrypts.
   */
  cancel(options?: CallOptions & Attribution): Promise<void>;

  /**
   * Waits for the end, over continue-as-new and outages of Temporal. Throws InvalidInputError, CreateRejectedError,
   * UnknownOutcomeError, JobCanceledError, JobTerminatedError or JobFailedError where there is no honest result.
   */
  result(options?: WaitOptions): Promise<AgentJobResult>;

  /**
   * Yields the present state, and each one that differs, until that of the end; what `result` tells by an error ends it
   * too. It goes on over continue-as-new, new runs of the job, outages of Temporal and times without a worker. A change
   * is seen after a second, of a job that has been quiet for long within half a minute. The number of reads (`polls`)
   * and a poll that comes or goes are no change. Throws JobNotFoundError, and the signal's reason once it is aborted.
   */
  watch(options?: WaitOptions): AsyncIterable<JobState>;
}

import { WorkflowUpdateFailedError, type Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  type AgentJobResult,
  type FollowUpAnswer,
  type JobState,
  type ResolveUnknownInput,
} from '../contract.js';
import { parseResolution } from '../job-input.js';
import { JobNotFoundError, MessageRefusedError, NoWorkerError } from './errors.js';
import { deliverFollowUp, queueFollowUp, type FollowUpOptions } from './follow-up.js';
import { waitForResult } from './outcome.js';
import { isNoWorker, temporalCall } from './temporal-call.js';

export interface WaitOptions {
  /** Ends the wait, never the job. */
  signal?: AbortSignal | undefined;
}

/** A query that takes longer has no worker to answer it. */
const QUERY_MS = 10_000;

/** One job, by its workflow id: always its newest run, so that a follow-up to an ended job is seen too. */
export class JobHandle {
  readonly workflowId: string;
  readonly #client: Client;

  constructor(client: Client, workflowId: string) {
    this.#client = client;
    this.workflowId = workflowId;
  }

  /** Queues a follow-up; of a job whose workflow has ended, a new run attached to the same job takes it. */
  followUp(prompt: string, options: FollowUpOptions = {}): Promise<{ id: string }> {
    return queueFollowUp(this.#client, this.workflowId, prompt, options);
  }

  /** As `followUp`, and waits until the upstream took it, refused it, or its outcome is unknown; `queued` where that must wait. */
  sendFollowUp(prompt: string, options: FollowUpOptions = {}): Promise<FollowUpAnswer> {
    return deliverFollowUp(this.#client, this.workflowId, prompt, options);
  }

  /** The job's present state, of a closed workflow too while a worker runs and its history is kept; throws NoWorkerError. */
  state({ signal }: WaitOptions = {}): Promise<JobState> {
    return this.#call(
      signal,
      async () => {
        try {
          const handle = this.#client.workflow.getHandle(this.workflowId);
          return await this.#client.withDeadline(Date.now() + QUERY_MS, () => handle.query(jobStateQuery));
        } catch (cause) {
          if (signal?.aborted || !isNoWorker(cause)) throw cause;
          throw new NoWorkerError(this.workflowId, 'no worker answered; start one on the job’s task queue', { cause });
        }
      },
      'no such workflow',
    );
  }

  /** Reads the job at once, at most once a second and never against a `Retry-After`. */
  pollNow({ signal }: WaitOptions = {}): Promise<void> {
    return this.#call(signal, () => this.#client.workflow.getHandle(this.workflowId).signal(pollNowSignal));
  }

  /** Settles an unknown write as a person decides; throws MessageRefusedError where the action does not fit the present unknown. */
  resolveUnknown(resolution: ResolveUnknownInput, { signal }: WaitOptions = {}): Promise<JobState> {
    const checked = parseResolution(resolution);
    return this.#call(signal, () =>
      this.#client.workflow.getHandle(this.workflowId).executeUpdate(resolveUnknownUpdate, { args: [checked] }),
    );
  }

  /** Asks the workflow to end; a write in flight is finished first, and the remote job goes on. */
  cancel({ signal }: WaitOptions = {}): Promise<void> {
    return this.#call(signal, async () => {
      await this.#client.workflow.getHandle(this.workflowId).cancel();
    });
  }

  /**
   * Waits for the end, over continue-as-new and outages of Temporal. Throws InvalidInputError, CreateRejectedError,
   * UnknownOutcomeError, JobCanceledError, JobTerminatedError or JobFailedError where there is no honest result.
   */
  result({ signal }: WaitOptions = {}): Promise<AgentJobResult> {
    return waitForResult(this.#client, this.workflowId, signal);
  }

  async #call<T>(
    signal: AbortSignal | undefined,
    call: () => Promise<T>,
    gone = 'no such workflow, or it has ended',
  ): Promise<T> {
    try {
      return await temporalCall(this.#client, signal, call);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) {
        throw new JobNotFoundError(this.workflowId, gone, { cause: error });
      }
      if (error instanceof WorkflowUpdateFailedError) {
        throw new MessageRefusedError(this.workflowId, error.cause?.message ?? error.message, { cause: error });
      }
      throw error;
    }
  }
}

import { WorkflowUpdateFailedError, type Client, type WorkflowHandle } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  type AgentJobResult,
  type Attribution,
  type FollowUpAnswer,
  type JobState,
  type ResolveUnknownInput,
} from '../../contract.js';
import { parseAttribution, parseResolution } from '../../agent-job/resolution.js';
import { attributedWorkflowClient } from '../../temporal/attributed-cancel.js';
import { asNotRetryable } from '../../contract/errors.js';
import { JobEndedError, MessageRefusedError } from '../errors.js';
import { CALL_TIMEOUT_MS, temporalCall, type CallOptions, type WaitOptions } from '../temporal-call.js';
import { isNoAnswer } from '../temporal-errors.js';
import { deliverFollowUp, queueFollowUp, type FollowUpOptions } from './follow-up.js';
import { whyNoAnswer } from './no-answer.js';
import { withPresentWait } from './present-wait.js';
import { readDescription } from './run-record.js';
import { waitForResult } from './wait.js';
import { queryAgain } from '../../temporal/query-again.js';

/** A job that is to be adopted is read first, which may take a minute. */
const ADOPT_TIMEOUT_MS = 75_000;

/** One job, by its workflow id: always its newest run, so that a follow-up to an ended job is seen too. */
export class JobHandle {
  readonly workflowId: string;
  /** Whether the start that answered with this handle made the workflow; undefined of a handle from elsewhere. */
  readonly isNew: boolean | undefined;
  readonly #client: Client;

  constructor(client: Client, workflowId: string, isNew?: boolean) {
    this.#client = client;
    this.workflowId = workflowId;
    this.isNew = isNew;
  }

  /**
   * Queues a follow-up; of a job whose workflow has ended, a new run attached to the same job takes it. Throws
   * InvalidInputError, MessageRefusedError, NoJobError, UsedIdsUnknownError, or FollowUpUnconfirmedError where nobody
   * knows whether it was queued.
   */
  followUp(prompt: string, options: FollowUpOptions = {}): Promise<{ id: string }> {
    return queueFollowUp(this.#client, this.workflowId, prompt, options);
  }

  /**
   * As `followUp`, and waits until the upstream accepted it, refused it, or its outcome is unknown. Answers `queued`
   * where that must wait, or takes longer than a minute.
   */
  sendFollowUp(prompt: string, options: FollowUpOptions = {}): Promise<FollowUpAnswer> {
    return deliverFollowUp(this.#client, this.workflowId, prompt, options);
  }

  /**
   * Reads the job's present state, of a closed workflow too while a worker runs and its history is kept. Where the job
   * waits for its turn, its queue is asked for the present place. Throws NoWorkerError, or one of its kinds, where no
   * worker responds.
   */
  async state(options: CallOptions = {}): Promise<JobState> {
    const startedAt = performance.now();
    const state = await this.#askWorker(options, (handle) => queryAgain(() => handle.query(jobStateQuery)));
    const leftMs = (options.timeoutMs ?? CALL_TIMEOUT_MS) - (performance.now() - startedAt);
    return withPresentWait(this.#client, this.workflowId, state, { signal: options.signal, timeoutMs: leftMs });
  }

  /**
   * Reads the job at once, at most once a second and never against a `Retry-After`; throws JobEndedError. `by` and
   * `note` stay in Temporal's history, as the argument of the signal.
   */
  async pollNow({ by, note, ...options }: CallOptions & Attribution = {}): Promise<void> {
    const attribution = parseAttribution({ by, note });
    const args: [Attribution?] = Object.keys(attribution).length === 0 ? [] : [attribution];
    await this.#call(options, (handle) => handle.signal(pollNowSignal, ...args));
  }

  /**
   * Settles a write in doubt as a person decides. Throws MessageRefusedError where the action does not fit the present
   * write in doubt, and JobEndedError. Throws NoWorkerError, or one of its kinds, where no worker responds: then it may
   * have been settled. `adopt` reads the job first and has 75 seconds, not 10.
   */
  async resolveUnknown(resolution: ResolveUnknownInput, { signal, timeoutMs }: CallOptions = {}): Promise<JobState> {
    const checked = parseResolution(resolution);
    const limits = {
      signal,
      timeoutMs: timeoutMs ?? (checked.action === 'adopt' ? ADOPT_TIMEOUT_MS : CALL_TIMEOUT_MS),
    };
    const settle = (handle: WorkflowHandle) => handle.executeUpdate(resolveUnknownUpdate, { args: [checked] });
    try {
      return await this.#askWorker(limits, settle);
    } catch (error) {
      // Again, it could settle the next write in doubt; one that names its write is refused then.
      throw checked.since == null ? asNotRetryable(error) : error;
    }
  }

  /**
   * Asks the workflow to end; a write in flight is finished first, and the remote job goes on. `by` and `note` stay in
   * Temporal's history as the request's identity and reason, which no payload codec encrypts.
   */
  async cancel({ by, note, ...options }: CallOptions & Attribution = {}): Promise<void> {
    const workflows = attributedWorkflowClient(this.#client, parseAttribution({ by, note }));
    await this.#call(options, () => workflows.getHandle(this.workflowId).cancel());
  }

  /**
   * Waits for the end, over continue-as-new and outages of Temporal. Throws InvalidInputError, CreateRejectedError,
   * UnknownOutcomeError, JobCanceledError, JobTerminatedError or JobFailedError where there is no honest result.
   */
  result({ signal }: WaitOptions = {}): Promise<AgentJobResult> {
    return waitForResult(this.#client, this.workflowId, signal);
  }

  async #call<T>(options: CallOptions, call: (handle: WorkflowHandle) => Promise<T>): Promise<T> {
    try {
      return await temporalCall(this.#client, options, () => call(this.#client.workflow.getHandle(this.workflowId)));
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) throw await this.#whyNotFound(options, error);
      if (error instanceof WorkflowUpdateFailedError) {
        throw new MessageRefusedError(this.workflowId, error.cause?.message ?? error.message, { cause: error });
      }
      throw error;
    }
  }

  async #askWorker<T>(options: CallOptions, ask: (handle: WorkflowHandle) => Promise<T>): Promise<T> {
    try {
      return await this.#call(options, ask);
    } catch (error) {
      if (options.signal?.aborted || !isNoAnswer(error)) throw error;
      throw await whyNoAnswer(this.#client, this.workflowId, options.signal, error);
    }
  }

  /** Temporal says the same of a workflow that never was and of one that has ended. */
  async #whyNotFound({ signal }: CallOptions, cause: WorkflowNotFoundError): Promise<Error> {
    try {
      const run = await temporalCall(this.#client, { signal }, () => readDescription(this.#client, this.workflowId));
      return new JobEndedError(this.workflowId, run.status.name, { cause });
    } catch (error) {
      return error as Error;
    }
  }
}

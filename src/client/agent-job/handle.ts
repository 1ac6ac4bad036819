/** What callers do with one job, and how each call is made. */
import { parseAttribution } from '../../agent-job/input.js';
import { type AgentJobStartOptions, checkKey } from '../../agent-job/start-options.js';
import {
  agentJobOf,
  type AgentJobResult,
  agentJobWorkflowId,
  attachedJobWorkflowId,
  type Attribution,
  type FollowUpAnswer,
  type JobState,
  LIMIT,
  pollNowSignal,
  type ResolveUnknownInput,
  resolveUnknownUpdate,
} from '../../contract.js';
import { asNotRetryable } from '../../contract/errors.js';
import { ID, text } from '../../contract/kinds.js';
import { CancelClient } from '../../temporal/private/cancel-reason.js';
import { ATTRIBUTION_OPTIONS, checkResolution, checkWaitOptions, INPUT_OPTIONS, limitsOf } from '../settings.js';
import type { CallOptions, ClientContext, JobName, WaitOptions } from '../settings.js';
import { CALL_TIMEOUT_MS } from '../temporal-call.js';
import { jobUrl } from '../web-ui.js';
import { askWorker, callJob, readState } from './call-job.js';
import { deliverFollowUp, FOLLOW_UP_OPTIONS, queueFollowUp } from './follow-up.js';
import type { FollowUpOptions, QueuedFollowUp } from './follow-up.js';
import { startJob, type StartedRun } from './start-or-join.js';
import { waitForResult, watchJob } from './wait.js';

/** One job, by its workflow id: always its newest run, so that a follow-up to an ended job is seen too. */
export interface JobHandle {
  readonly workflowId: string;
  /** Null if the workflow id is of the caller's own choice. */
  readonly projectId: string | null;
  /** Null if the job was attached without one, or the workflow id is of the caller's own choice. */
  readonly key: string | null;
  /** The newest run at the time of the start's answer; null in a handle that no start made. */
  readonly runId: string | null;
  /** The page in Temporal's web UI that leads to the newest run; null if the web UI's address is not known. */
  readonly url: string | null;
  /** Whether the start that answered with this handle made the workflow; undefined in a handle that no start made. */
  readonly isNew: boolean | undefined;

  /**
   * Queues a follow-up; of a job whose workflow has ended, a new run attached to the same job takes it. Throws
   * InvalidInputError, FollowUpConflictError, MessageRefusedError, NoJobError, UsedIdsUnknownError, or
   * FollowUpUnconfirmedError if it may have been queued.
   */
  followUp(prompt: string, options?: FollowUpOptions): Promise<QueuedFollowUp>;

  /**
   * As `followUp`, and waits until the upstream accepted it, rejected it, or its outcome is unknown. Answers `queued`
   * if that must wait, or takes longer than a minute.
   */
  sendFollowUp(prompt: string, options?: FollowUpOptions): Promise<FollowUpAnswer>;

  /**
   * Reads the job's present state. A closed workflow has one, too, while a worker runs and the history is kept. The
   * default limit is 30 seconds, not 10. Throws NoWorkerError if no worker answers in time, and JobTerminatedError if
   * the workflow ended before a worker began it.
   */
  state(options?: CallOptions): Promise<JobState>;

  /**
   * Polls the job at once, at most once a second and never against a `Retry-After`; throws JobEndedError. `by` and
   * `note` stay in Temporal's history, as the argument of the signal.
   */
  pollNow(options?: CallOptions & Attribution): Promise<void>;

  /**
   * Resolves a write in doubt as a person decides. Throws MessageRefusedError if the action does not fit the present
   * write in doubt, and JobEndedError. Throws NoWorkerError if no worker answers in time: then it may have been
   * resolved. `adopt` polls the job first and has 75 seconds, not 10.
   */
  resolve(resolution: ResolveUnknownInput, options?: CallOptions): Promise<JobState>;

  /**
   * Asks the workflow to end; a write in flight is finished first, and the remote job goes on. `by` and `note` stay in
   * Temporal's history as the request's identity and reason, which no payload codec encrypts.
   */
  cancel(options?: CallOptions & Attribution): Promise<void>;

  /**
   * Waits for the end, over continue-as-new and outages of Temporal. Throws InvalidInputError, CreateRejectedError,
   * UnknownOutcomeError, JobCanceledError, JobTerminatedError or JobFailedError if there is no honest result.
   */
  result(options?: WaitOptions): Promise<AgentJobResult>;

  /**
   * Yields the present state and each one that differs, up to that of the end. An end that `result` throws ends this
   * too. It goes on over continue-as-new, new runs of the job, outages of Temporal and times without a worker. A change
   * is seen after a second, of a job that has been quiet for long within half a minute. The number of `polls`
   * and a poll that comes or goes are no change. Throws JobNotFoundError, and the signal's reason once it is aborted.
   */
  watch(options?: WaitOptions): AsyncIterable<JobState>;
}

/** A handle that asks Temporal; `started` is what the start that made it learned. */
export function jobHandle(context: ClientContext, workflowId: string, started?: StartedRun): JobHandle {
  const { client, webUi, logger } = context;
  const { projectId = null, key = null } = agentJobOf(workflowId) ?? {};
  const url = webUi && jobUrl(webUi, { workflowId });
  const followUpLimits = (options: FollowUpOptions) => {
    return { ...options, ...limitsOf(context, options, FOLLOW_UP_OPTIONS) };
  };
  return {
    workflowId,
    projectId,
    key,
    url,
    runId: started?.runId ?? null,
    isNew: started?.isNew,
    followUp: async (prompt, options = {}) => queueFollowUp(client, workflowId, prompt, followUpLimits(options)),
    sendFollowUp: async (prompt, options = {}) => deliverFollowUp(client, workflowId, prompt, followUpLimits(options)),
    state: async (options = {}) => readState(client, workflowId, limitsOf(context, options)),
    pollNow: async (options = {}) => {
      const { limits, author } = readAuthor(context, options);
      const args: [Attribution?] = Object.keys(author).length === 0 ? [] : [author];
      await callJob(client, workflowId, limits, (handle) => handle.signal(pollNowSignal, ...args));
    },
    resolve: async (resolution, options = {}) => resolve(context, workflowId, resolution, options),
    cancel: async (options = {}) => {
      const { limits, author } = readAuthor(context, options);
      const workflows = new CancelClient(client, author);
      await callJob(client, workflowId, limits, () => workflows.getHandle(workflowId).cancel());
    },
    result: async (options = {}) => {
      checkWaitOptions(options);
      return waitForResult(client, workflowId, options?.signal, logger);
    },
    watch: (options = {}) => {
      checkWaitOptions(options);
      return watchJob(context, workflowId, options ?? {});
    },
  };
}

function readAuthor(context: ClientContext, given: CallOptions & Attribution) {
  const limits = limitsOf(context, given, ATTRIBUTION_OPTIONS);
  return { limits, author: parseAttribution({ by: given?.by, note: given?.note }) };
}

/** An adoption polls the job first, which may take a minute. */
const ADOPT_TIMEOUT_MS = 75_000;

async function resolve(
  context: ClientContext,
  workflowId: string,
  resolution: ResolveUnknownInput,
  options: CallOptions,
): Promise<JobState> {
  const checked = checkResolution(resolution);
  const defaultMs = checked.action === 'adopt' ? ADOPT_TIMEOUT_MS : CALL_TIMEOUT_MS;
  try {
    return await askWorker(context.client, workflowId, limitsOf(context, options, {}, defaultMs), (handle) =>
      handle.executeUpdate(resolveUnknownUpdate, { args: [checked] }),
    );
  } catch (error) {
    // A repetition could resolve the next write in doubt, unless it names its write: then it is declined.
    throw checked.since == null ? asNotRetryable(error) : error;
  }
}

/** Takes longer ids than a start does: another client may have started such a workflow. */
const WORKFLOW_ID = text({ maxBytes: LIMIT.workflowIdBytes, controls: 'all' });

/** The workflow id of a job that is named in one of three ways; throws InvalidInputError. */
export function workflowIdOf(job: JobName): string {
  if (typeof job !== 'object' || job === null) return WORKFLOW_ID.check(job, 'workflowId');
  const projectId = ID.check(job.projectId, 'projectId');
  // Null and undefined mean absent here, too.
  return 'key' in job && job.key != null
    ? WORKFLOW_ID.check(agentJobWorkflowId(projectId, checkKey(job.key)), 'key')
    : attachedJobWorkflowId(projectId, ID.check((job as { jobId?: unknown }).jobId, 'key or jobId'));
}

/** Starts a job, or joins the one that is there, and answers with its handle. */
export async function startHandle(
  context: ClientContext,
  wanted: AgentJobStartOptions,
  options: CallOptions,
): Promise<JobHandle> {
  const started = await startJob(context.client, wanted, limitsOf(context, options, INPUT_OPTIONS));
  return jobHandle(context, wanted.workflowId, started);
}

/** How a follow-up reaches a job, running or ended, and what its caller gets if no worker responds. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { WorkflowUpdateFailedError, type Client } from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import { FAILURE, followUpSignal, jobStateQuery, sendFollowUpUpdate } from '../../contract.js';
import type { FollowUpAnswer, JobState, Priority } from '../../contract.js';
import { FULL_QUEUE, hashOf, isOtherPrompt, parseFollowUp } from '../../agent-job/input.js';
import { asRepeatable } from '../../contract/errors.js';
import { AgentJobError, FollowUpConflictError, FollowUpUnconfirmedError, MessageRefusedError } from '../errors.js';
import type { CallOptions, Names } from '../settings.js';
import { START_TIMEOUT_MS, temporalCall, throwIfOver } from '../temporal-call.js';
import { isNoAnswer, isOutage, isPaused, isTaskFailure } from '../temporal-errors.js';
import { noAnswerError } from './call-job.js';
import { type IdentifiedFollowUp, reAttacher, updateIdOf } from './follow-up-after-end.js';
import { askWorkflow } from '../../temporal/workflow-clients.js';

/** Each further round means that the workflow closed or was started again in between, or that a start came too late. */
const MAX_FOLLOW_UP_ROUNDS = 5;
/** Long enough for a workflow to close after its last answers. */
const BETWEEN_ROUNDS_MS = 200;
/** A write takes at most 20 seconds, but may wait for its turn. Then the caller gets the state that the job knows. */
const DELIVERY_TIMEOUT_MS = 60_000;
const OUTCOME_TIMEOUT_MS = 3_000;
const CHECK_TIMEOUT_MS = 5_000;

/** How a follow-up is sent. */
export interface FollowUpOptions {
  /** Makes a repetition harmless: the same id is sent at most once over the job's life. Default: a new one. */
  id?: string | null | undefined;
  /** The order of the project's messages that wait for their turn, 1 to 5, 1 first. Default: that of the job. */
  priority?: Priority | null | undefined;
  /** Throws JobEndedError if the workflow has ended, in place of attaching to its job anew. Default false. */
  onlyWhileRunning?: boolean | null | undefined;
  /** Ends the call with the signal's reason; the follow-up may have been queued by then. */
  signal?: AbortSignal | null | undefined;
  /** Milliseconds; default 30 seconds for `followUp`, a minute for `sendFollowUp`. `Infinity` is none. */
  timeoutMs?: number | null | undefined;
}

/** Those besides the limits of a call. */
export const FOLLOW_UP_OPTIONS: Names<Omit<FollowUpOptions, keyof CallOptions>> = {
  id: true,
  priority: true,
  onlyWhileRunning: true,
};

/** A follow-up that was queued. */
export interface QueuedFollowUp {
  id: string;
  /** Whether the job itself has said that it keeps the follow-up; false if no worker answered within 5 seconds. */
  checked: boolean;
}

/** Queues a follow-up by signal, which needs no worker while the workflow runs. */
export async function queueFollowUp(
  client: Client,
  workflowId: string,
  prompt: string,
  options: FollowUpOptions,
): Promise<QueuedFollowUp> {
  const followUp = identify(prompt, options);
  const goOn = reAttacher(client, { workflowId, followUp, onlyWhileRunning: options.onlyWhileRunning });
  const limits = { signal: options.signal, timeoutMs: options.timeoutMs ?? START_TIMEOUT_MS };
  const queue = async (over: AbortSignal) => {
    const handle = client.workflow.getHandle(workflowId);
    const queued = await unlessEnded(() => handle.signal(followUpSignal, followUp).then(() => true));
    if (queued) return 'signalled';
    const sent = await goOn(over);
    return sent && (sent.isQueued || (await unlessEnded(sent.answer))) ? 'answered' : undefined;
  };
  const how = await asRepeatable(options.id, confirmed(client, workflowId, followUp, limits, queue));
  const checked = how === 'answered' || (await isKept(client, workflowId, followUp, options.signal));
  return { id: followUp.id, checked };
}

/**
 * Asks the job whether it keeps a follow-up: a signal tells no caller that its id has another prompt, or that the job
 * takes no more. False if no worker says. Throws FollowUpConflictError or MessageRefusedError.
 */
async function isKept(
  client: Client,
  workflowId: string,
  { id, prompt }: IdentifiedFollowUp,
  signal: AbortSignal | null | undefined,
): Promise<boolean> {
  const ask = () => askWorkflow(client, { workflowId }, jobStateQuery);
  const state = await temporalCall(client, { signal, timeoutMs: CHECK_TIMEOUT_MS }, ask).catch(() => null);
  if (state === null) return false;
  // A worker of another release may say less.
  const { promptHashes, followUps, phase }: Partial<JobState> = state;
  if (isOtherPrompt(hashOf(promptHashes, id), prompt)) throw new FollowUpConflictError(workflowId, id);
  const isDropped = followUps?.some((known) => known.id === id && known.state === 'abandoned');
  // The end of the run came first: the same call again would start another run.
  if (isDropped && phase === 'done') return false;
  if (isDropped) throw new MessageRefusedError(workflowId, `follow-up ${FULL_QUEUE}`);
  return true;
}

/** Sends a follow-up by update and waits for its outcome. */
export async function deliverFollowUp(
  client: Client,
  workflowId: string,
  prompt: string,
  options: FollowUpOptions,
): Promise<FollowUpAnswer> {
  const followUp = identify(prompt, options);
  const goOn = reAttacher(client, { workflowId, followUp, onlyWhileRunning: options.onlyWhileRunning });
  const limits = { signal: options.signal, timeoutMs: options.timeoutMs ?? DELIVERY_TIMEOUT_MS };
  const send = async (over: AbortSignal) => {
    const handle = client.workflow.getHandle(workflowId);
    const request = { args: [followUp] as [IdentifiedFollowUp], updateId: updateIdOf(followUp) };
    const answer = await unlessEnded(() => handle.executeUpdate(sendFollowUpUpdate, request));
    if (answer) return answer;
    const sent = await goOn(over);
    return sent ? unlessEnded(sent.answer) : undefined;
  };
  const answered = confirmed(client, workflowId, followUp, limits, send).catch(async (error: unknown) => {
    if (isPaused(error)) throw await noAnswerError(client, workflowId, options.signal, error);
    const isUnanswered = error instanceof FollowUpUnconfirmedError && isNoAnswer(error.cause);
    if (!isUnanswered || options.signal?.aborted) throw error;
    return readOutcome(client, workflowId, followUp, options.signal);
  });
  return asRepeatable(options.id, answered);
}

/** Asks the job for the state of a follow-up whose update took too long; throws FollowUpUnconfirmedError. */
async function readOutcome(
  client: Client,
  workflowId: string,
  { id }: IdentifiedFollowUp,
  signal: AbortSignal | null | undefined,
): Promise<FollowUpAnswer> {
  try {
    const { followUps, job } = await temporalCall(client, { signal, timeoutMs: OUTCOME_TIMEOUT_MS }, () =>
      askWorkflow(client, { workflowId }, jobStateQuery),
    );
    const known = followUps.find((followUp) => followUp.id === id);
    if (known) return { id, state: known.state, job };
    throw unconfirmed(workflowId, id, 'the job does not know the follow-up yet');
  } catch (error) {
    if (signal?.aborted || error instanceof FollowUpUnconfirmedError) throw error;
    const why = await noAnswerError(client, workflowId, signal, error);
    throw unconfirmed(workflowId, id, why.message, why);
  }
}

function unconfirmed(workflowId: string, id: string, text: string, cause?: unknown): FollowUpUnconfirmedError {
  const again = `repeat it with id ${JSON.stringify(id)}, which is sent at most once`;
  return new FollowUpUnconfirmedError(workflowId, id, `${text}; ${again}`, { cause });
}

function identify(given: string, options: FollowUpOptions): IdentifiedFollowUp {
  const { prompt, id, priority } = parseFollowUp({ prompt: given, id: options.id, priority: options.priority });
  return { prompt, id: id ?? randomUUID(), ...(priority !== null && { priority }) };
}

/** Undefined if the workflow has ended, or is about to: the message was surely not accepted. */
async function unlessEnded<T>(send: () => Promise<T>): Promise<T | undefined> {
  try {
    return await send();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isEnding(error)) return undefined;
    throw error;
  }
}

/** How the workflow failed an update; undefined of any other error. */
function updateFailureIn(error: unknown): ApplicationFailure | undefined {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  return cause instanceof ApplicationFailure ? cause : undefined;
}

/** The workflow declines new messages while it answers those that wait, right before its end. */
function isEnding(error: unknown): boolean {
  const [details] = updateFailureIn(error)?.details ?? [];
  return (details as { field?: unknown } | undefined)?.field === 'job';
}

/** Attempts until one is confirmed; throws FollowUpUnconfirmedError, or MessageRefusedError if it is declined. */
async function confirmed<T>(
  client: Client,
  workflowId: string,
  { id }: IdentifiedFollowUp,
  limits: CallOptions,
  attempt: (over: AbortSignal) => Promise<T | undefined>,
): Promise<T> {
  try {
    const confirmation = await temporalCall(client, limits, (over) => inRounds(client, over, attempt));
    if (confirmation !== undefined) return confirmation;
  } catch (error) {
    const failedAs = updateFailureIn(error)?.type;
    // It had accepted the update, and was terminated or timed out before it answered.
    if (failedAs === 'AcceptedUpdateCompletedWorkflow') {
      const text = 'the workflow was ended from outside while the follow-up was under way; it may have been sent';
      throw unconfirmed(workflowId, id, text, error);
    }
    if (failedAs === FAILURE.followUpConflict) throw new FollowUpConflictError(workflowId, id, { cause: error });
    if (error instanceof WorkflowUpdateFailedError) {
      throw new MessageRefusedError(workflowId, error.cause?.message ?? error.message, { cause: error });
    }
    // One of ours names its own cause, which may be an outage's: nothing was sent.
    const isDefinite = error instanceof AgentJobError || !(isOutage(error) || isTaskFailure(error));
    if (limits.signal?.aborted || isDefinite) throw error;
    throw unconfirmed(workflowId, id, (error as Error).message, error);
  }
  const text = `the workflow ended and began anew, or Temporal was slow to start it, ${MAX_FOLLOW_UP_ROUNDS} times`;
  throw unconfirmed(workflowId, id, text);
}

async function inRounds<T>(
  client: Client,
  over: AbortSignal,
  attempt: (over: AbortSignal) => Promise<T | undefined>,
): Promise<T | undefined> {
  for (let round = 1; round <= MAX_FOLLOW_UP_ROUNDS; round++) {
    if (round > 1) await delay(BETWEEN_ROUNDS_MS);
    throwIfOver(client, over);
    const confirmation = await attempt(over).catch((error: unknown) => {
      // The same id, and the same id of the update, are taken once.
      if (round === MAX_FOLLOW_UP_ROUNDS || !isTaskFailure(error)) throw error;
    });
    if (confirmation !== undefined) return confirmation as T;
  }
  return undefined;
}

/** A follow-up to a job whose workflow has ended: the same workflow id is started again, attached to the same job. */
import { type Client, WithStartWorkflowOperation } from '@temporalio/client';
import { allowedAfter, type RunEnd } from '../../agent-job/closed-run.js';
import { isPromptHash } from '../../agent-job/fields.js';
import { givenOptions, hashOf, isOtherPrompt, promptHash } from '../../agent-job/input.js';
import { agentJobStartOptions } from '../../agent-job/start-options.js';
import { AGENT_JOB_WORKFLOW, sendFollowUpUpdate } from '../../contract.js';
import type { AgentJobInput, FollowUpAnswer, FollowUpInput, JobState, PromptHashes } from '../../contract.js';
import { withRestartRequestId } from '../../temporal/private/restart-request-id.js';
import { UpdateWithStartClient } from '../../temporal/private/update-with-start.js';
import { concurrently } from '../concurrently.js';
import { isClosedUnbegun } from '../temporal-errors.js';
import {
  FollowUpConflictError,
  FollowUpUnconfirmedError,
  JobEndedError,
  NoJobError,
  UsedIdsUnknownError,
} from '../errors.js';
import { askClosedRun } from './call-job.js';
import { restartAfter } from './start-or-join.js';
import { listEarlierRuns, nullIfGone, readClosedRun, readInputHash, readRun, readStartInput } from './run-record.js';
import type { RunRecord } from './run-record.js';
import { textOrNull } from './list.js';

/** A follow-up, by the id that makes it one and the same. */
export type IdentifiedFollowUp = FollowUpInput & { id: string };

/** Temporal repeats the first answer to an update id, whatever its text: another text is another update. */
export function updateIdOf({ id, prompt }: IdentifiedFollowUp): string {
  return `${id}:${promptHash(prompt)}`;
}

interface SentAfterEnd {
  /** The new run has it, and has not declined it. */
  isQueued: boolean;
  answer: () => Promise<FollowUpAnswer>;
}

/** A follow-up to a workflow that had ended a moment ago. */
interface LateFollowUp {
  workflowId: string;
  followUp: IdentifiedFollowUp;
  /** Throws JobEndedError in place of starting anew. */
  onlyWhileRunning?: boolean | null | undefined;
}

/**
 * Gives an attempt: it starts the ended workflow id again, attached to its job, and queues the follow-up there in the
 * same call. Callers that read the same ended run share one new run. What is known of an ended run answers a follow-up
 * that the run used up. Null asks for another attempt: the workflow runs, or the start came too late.
 */
export function reAttacher(client: Client, late: LateFollowUp): (over: AbortSignal) => Promise<SentAfterEnd | null> {
  // An ended run does not change: each is read once.
  const read = new Map<string, EndedJob>();
  return (over) => reAttach(client, late, { read, over });
}

async function reAttach(
  client: Client,
  { workflowId, followUp, onlyWhileRunning }: LateFollowUp,
  { read, over }: { read: Map<string, EndedJob>; over: AbortSignal },
): Promise<SentAfterEnd | null> {
  const run = await readRun(client, workflowId);
  if (run.isRunning) return null;
  if (onlyWhileRunning) throw new JobEndedError(workflowId, run.workflowStatus);
  const earlier = await listEarlierRuns(client, run);
  if (earlier === null) return null;
  const ended = read.get(run.runId) ?? (await readEndedJob(client, run, earlier.unknownToLast));
  read.set(run.runId, ended);
  const known = answerOfEndedJob(workflowId, ended, followUp);
  if (known !== null) return { isQueued: false, answer: () => Promise.resolve(known) };
  const startWorkflowOperation = await attachOperation(run, ended);
  const workflows = new UpdateWithStartClient(client);
  const update = await restartAfter(client, { last: run, earlierRunIds: earlier.all, over }, () =>
    workflows.startUpdateWithStart(sendFollowUpUpdate, {
      args: [followUp],
      updateId: updateIdOf(followUp),
      waitForStage: 'ACCEPTED',
      startWorkflowOperation,
    }),
  );
  // A follow-up that is already answered may have been declined.
  return update && { isQueued: !workflows.isAnswered, answer: () => update.result() };
}

async function attachOperation(run: RunRecord, { last, jobId, used, input, inputHash }: EndedJob) {
  const { taskQueue, title, hidePrompts } = run;
  const startOptions = agentJobStartOptions(
    { projectId: last.projectId, jobId, ...used, ...givenOptions(input ?? {}) },
    { key: 'ended', taskQueue, inputHash, title, hidePrompts },
  );
  // The first run's page says what was asked for; a job's id says nothing to people.
  const asked = textOrNull(await run.details());
  return new WithStartWorkflowOperation<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
    ...startOptions,
    ...(asked !== null && { staticDetails: asked }),
    // The server has accepted this id before, however long the id is.
    workflowId: run.workflowId,
    ...withRestartRequestId(run.runId),
    // An attached run never creates a job, so the rule against a second start of a key does not bind it.
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
}

/** The state of a used id, null for a new one. An earlier run hands on no states: it is `unknown`. */
function answerOfEndedJob(
  workflowId: string,
  { last, used }: EndedJob,
  { id, prompt }: IdentifiedFollowUp,
): FollowUpAnswer | null {
  if (isOtherPrompt(hashOf(used.promptHashes, id), prompt)) throw new FollowUpConflictError(workflowId, id);
  const known = last.followUps.find((followUp) => followUp.id === id && followUp.state !== 'abandoned');
  if (known?.state === 'queued') throw cutShort(workflowId, id);
  if (known === undefined && !used.usedFollowUpIds.includes(id)) return null;
  return { id, state: known?.state ?? 'unknown', job: last.job };
}

/** Only a termination leaves a follow-up queued; its id is used up, for the write may have been in flight. */
function cutShort(workflowId: string, id: string): FollowUpUnconfirmedError {
  const name = `follow-up ${JSON.stringify(id)}`;
  const text = `${name} was waiting when the workflow was terminated and may have been sent`;
  const remedy = 'check the job, and send it under a new id if it is missing';
  return new FollowUpUnconfirmedError(workflowId, id, `${text}; ${remedy}`, { retryable: false });
}

// What the ended runs of a job leave behind: its id, the follow-up ids that are used up, and the caller's options.

/** A worker answers a query of a closed run by replay; a longer wait means that no worker is there. */
const QUERY_TIMEOUT_MS = 10_000;

/** What is read of a run's result or last state. */
type FinalState = Pick<JobState, 'projectId' | 'jobId' | 'job' | 'followUps' | 'usedFollowUpIds'> &
  Partial<Pick<JobState, 'promptHashes'>>;

/** The follow-up ids that are used up, and the hashes of their prompts as far as they are known. */
interface UsedIds {
  usedFollowUpIds: string[];
  promptHashes: PromptHashes;
}

/** What a run that goes on with an ended one must know. */
interface EndedJob {
  last: FinalState;
  jobId: string;
  /** Of all the job's runs. */
  used: UsedIds;
  /** The first run's own input; null if Temporal no longer keeps it. */
  input: AgentJobInput | null;
  inputHash: string | null;
}

type RunId = Pick<RunRecord, 'workflowId' | 'runId'>;

/** Reads what the closed runs leave behind; throws NoJobError, or UsedIdsUnknownError rather than forget ids. */
async function readEndedJob(client: Client, run: RunRecord, unknownToLast: string[]): Promise<EndedJob> {
  const { end, state: last } = await readFinal(client, run);
  const jobId = last?.jobId ?? run.jobId;
  if (last === null || jobId === null || allowedAfter(end, jobId) !== 'go on') {
    throw new NoJobError(run.workflowId, `the workflow has ended (${end}) and knows no job to send a follow-up to`);
  }
  const earlier = await readEarlier(client, run.workflowId, jobId, unknownToLast);
  return {
    last,
    jobId,
    used: usedIn([...earlier, last]),
    input: await readStartInput(client, run),
    inputHash: await readInputHash(client, run),
  };
}

async function readEarlier(client: Client, workflowId: string, jobId: string, runIds: string[]): Promise<FinalState[]> {
  const states: FinalState[] = [];
  // Null if Temporal has deleted the run after the list was made.
  const read = (runId: string) => readFinal(client, { workflowId, runId }).catch(nullIfGone);
  for await (const final of concurrently(runIds, {}, read)) {
    const state = final?.state;
    if (state && (state.jobId === null || state.jobId === jobId)) states.push(state);
  }
  return states;
}

/** A run's hashes may be of ids that are free again, or, in the state of another release, of another form. */
function usedIn(states: readonly FinalState[]): UsedIds {
  const ids = new Set(states.flatMap(({ usedFollowUpIds }) => usedFollowUpIds));
  const hashes = states.flatMap(({ promptHashes }) => Object.entries(promptHashes ?? {}));
  const known = hashes.filter(([id, hash]) => ids.has(id) && isPromptHash(hash));
  return { usedFollowUpIds: [...ids], promptHashes: Object.fromEntries(known) };
}

/** How a run ended and its last state. The state is null if the run surely made no job: then it used no id. */
async function readFinal(client: Client, run: RunId): Promise<{ end: RunEnd; state: FinalState | null }> {
  const { end, result } = await readClosedRun(client, run);
  if (allowedAfter(end, null) === 'start again') return { end, state: null };
  const state = end === 'result' ? result : await queryState(client, run);
  if (!tellsUsedIds(state)) throw usedIdsUnknown(run, 'does not say which follow-up ids it used');
  return { end, state };
}

/** A worker of another release, or a person, may have ended the run with anything. */
function tellsUsedIds(final: Partial<FinalState> | null | undefined): final is FinalState {
  const lists = [final?.usedFollowUpIds, final?.followUps];
  return typeof final?.projectId === 'string' && lists.every((list) => Array.isArray(list));
}

/** A run that ended without a result still answers its query, while a worker runs and its history is kept. */
async function queryState(client: Client, run: RunId): Promise<FinalState> {
  try {
    return await client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, () => askClosedRun(client, run));
  } catch (cause) {
    if (isClosedUnbegun(cause)) throw usedIdsUnknown(run, 'was closed before a worker began it, and says nothing');
    const text = 'ended without a result and does not say which follow-up ids it used; start a worker and try again';
    throw usedIdsUnknown(run, text, cause);
  }
}

function usedIdsUnknown({ workflowId, runId }: RunId, text: string, cause?: unknown): UsedIdsUnknownError {
  const options = cause === undefined ? {} : { cause, retryable: true };
  return new UsedIdsUnknownError(workflowId, `the ended run ${runId} ${text}`, options);
}

/** A follow-up to a job whose workflow has ended: the same workflow id is started again, attached to the same job. */
import { type Client, WithStartWorkflowOperation, type WorkflowUpdateHandle } from '@temporalio/client';
import { givenOptions, isOtherPrompt, promptHash } from '../../agent-job/input.js';
import { agentJobStartOptions } from '../../agent-job/start-options.js';
import { attachedDetails, jobTitle, staticDetails } from '../../agent-job/title.js';
import {
  AGENT_JOB_WORKFLOW,
  type AgentJobInput,
  type AgentJobOptions,
  type AttachJobInput,
  type FollowUpAnswer,
  type FollowUpInput,
  type FollowUpStatus,
  type JobRecord,
  type JobState,
  sendFollowUpUpdate,
} from '../../contract.js';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import { withRestartRequestId } from '../../temporal/restart-request-id.js';
import { UpdateWithStartClient } from '../../temporal/workflow-clients.js';
import { concurrently } from '../concurrently.js';
import { FollowUpConflictError, FollowUpUnconfirmedError, NoJobError, UsedIdsUnknownError } from '../errors.js';
import { askClosedRun } from './call-job.js';
import {
  createdNoJob,
  type EarlierRuns,
  listEarlierRuns,
  nullIfGone,
  readDescription,
  readInputHash,
  readRun,
  readRunEnd,
  readStartInput,
  readUnbegunInput,
  type RunRecord,
} from './run-record.js';
import { restartAfter } from './start-or-join.js';

/** A follow-up, by the id that makes it one and the same. */
type IdentifiedFollowUp = FollowUpInput & { id: string };

/** Temporal repeats the first answer to an update id, whatever its text: another text is another update. */
export function updateIdOf({ id, prompt }: IdentifiedFollowUp): string {
  return `${id}:${promptHash(prompt)}`;
}

/** What came of a follow-up to a workflow that had ended a moment ago; `running` and `tooLate` want another attempt. */
type ReAttachment =
  | { kind: 'running' }
  /** Others may have gone on from it meanwhile. */
  | { kind: 'tooLate' }
  | { kind: 'answered'; answer: FollowUpAnswer }
  /** It may have been refused where its answer is there. */
  | { kind: 'accepted'; update: WorkflowUpdateHandle<FollowUpAnswer>; isAnswered: boolean };

/**
 * Gives an attempt, which may be repeated: it starts the ended workflow id again, attached to its job, and queues the
 * follow-up there in the same call. All who read the same ended run share one new run. A follow-up that an ended run
 * used up is answered from what is known of it.
 */
export function reAttacher(
  client: Client,
  workflowId: string,
  followUp: IdentifiedFollowUp,
): () => Promise<ReAttachment> {
  // What is read of an ended run does not change.
  const read = new Map<string, EndedJob>();
  return () => reAttach(client, workflowId, followUp, read);
}

async function reAttach(
  client: Client,
  workflowId: string,
  followUp: IdentifiedFollowUp,
  read: Map<string, EndedJob>,
): Promise<ReAttachment> {
  const elapsedMs = startStopwatch();
  const run = await readRun(client, workflowId);
  if (run.isRunning) return { kind: 'running' };
  const earlier = await listEarlierRuns(client, run);
  if (earlier === null) return { kind: 'tooLate' };
  const ended = read.get(run.runId) ?? (await readEndedJob(client, run, earlier));
  read.set(run.runId, ended);
  const answer = answerOfEndedJob(workflowId, ended, followUp);
  if (answer !== null) return { kind: 'answered', answer };
  const workflows = new UpdateWithStartClient(client);
  const update = await restartAfter(client, { last: run, earlierRunIds: earlier.all, elapsedMs }, () =>
    workflows.startUpdateWithStart(sendFollowUpUpdate, {
      args: [followUp],
      updateId: updateIdOf(followUp),
      waitForStage: 'ACCEPTED',
      startWorkflowOperation: attachOperation(run, ended),
    }),
  );
  if (update === 'tooLate') return { kind: 'tooLate' };
  return { kind: 'accepted', update, isAnswered: workflows.isAnswered };
}

function attachOperation(run: RunRecord, ended: EndedJob) {
  const { projectId, jobId, usedFollowUpIds, options, titles } = ended;
  const startOptions = agentJobStartOptions(
    { projectId, jobId, usedFollowUpIds, ...options },
    {
      key: 'ended',
      taskQueue: run.taskQueue,
      inputHash: ended.inputHash ?? undefined,
      title: ended.title ?? undefined,
      hidePrompts: run.hidePrompts,
    },
  );
  return new WithStartWorkflowOperation<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
    ...startOptions,
    // The first run's name what was asked for; an id of a job says nothing to people.
    ...(titles.summary !== null && { staticSummary: titles.summary }),
    staticDetails: attachedDetails(titles.details ?? staticDetails({ projectId, jobId }), jobId),
    // The server has accepted it before, however long it is.
    workflowId: run.workflowId,
    ...withRestartRequestId(run.runId),
    // An attached run never creates a job, so the rule against a second start of a key does not bind it.
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
}

/**
 * The state of a used id; `unknown` where an even earlier run used it up: only ids are handed on. Null for a new id.
 */
function answerOfEndedJob(
  workflowId: string,
  ended: EndedJob,
  { id, prompt }: IdentifiedFollowUp,
): FollowUpAnswer | null {
  if (isOtherPrompt(ended.promptHashes.get(id), prompt)) throw new FollowUpConflictError(workflowId, id);
  const known = ended.followUps.find((followUp) => followUp.id === id && followUp.state !== 'abandoned');
  if (known?.state === 'queued') throw cutShort(workflowId, known);
  if (known === undefined && !ended.usedFollowUpIds.includes(id)) return null;
  return { id, state: known?.state ?? 'unknown', job: ended.job };
}

/** Only a termination leaves a follow-up queued; its id is used up, for the write may have been in flight. */
function cutShort(workflowId: string, { id }: FollowUpStatus): FollowUpUnconfirmedError {
  const name = `follow-up ${JSON.stringify(id)}`;
  const text = `${name} was waiting when the workflow was terminated and may have been sent`;
  const remedy = 'look at the job, and send it under a new id if it is missing';
  return new FollowUpUnconfirmedError(workflowId, id, `${text}; ${remedy}`, { retryable: false });
}

// What the ended runs of a job leave behind: its id, the follow-up ids that are used up, and the caller's options.

/** A query of a closed run is answered by replay; longer means that no worker is there. */
const QUERY_TIMEOUT_MS = 10_000;

/** What a run that goes on with an ended one must know. */
interface EndedJob {
  projectId: string;
  jobId: string;
  job: JobRecord | null;
  followUps: FollowUpStatus[];
  usedFollowUpIds: string[];
  promptHashes: ReadonlyMap<string, string>;
  options: AgentJobOptions;
  inputHash: string | null;
  /** Names the job by its prompt; null where nobody knows that any more. */
  title: string | null;
  titles: Titles;
}

/** What the ended run was titled with; null where its caller gave nothing. */
interface Titles {
  summary: string | null;
  details: string | null;
}

/** What a run's result or last state tells. */
type FinalState = Pick<JobState, 'projectId' | 'jobId' | 'job' | 'followUps' | 'usedFollowUpIds'> &
  Partial<Pick<JobState, 'promptHashes'>>;
type EndedRun = Pick<RunRecord, 'workflowId' | 'runId'>;

/**
 * Reads what the ended runs of a workflow id leave behind; throws NoJobError, or UsedIdsUnknownError rather than forget
 * ids.
 */
async function readEndedJob(client: Client, run: RunRecord, earlier: EarlierRuns): Promise<EndedJob> {
  const final = await readFinalState(client, run);
  if ('failedAs' in final) throw noJob(run, `failed as ${final.failedAs}`);
  const jobId = final.jobId ?? run.jobId;
  if (jobId === null) throw noJob(run, run.status.toLowerCase());
  const input = await readStartInput(client, run.workflowId, run.firstRunId);
  const earlierIds = await readEarlierIds(client, run.workflowId, jobId, earlier.unknownToLast);
  return {
    projectId: final.projectId,
    jobId,
    job: final.job,
    followUps: final.followUps,
    usedFollowUpIds: [...new Set([...earlierIds, ...final.usedFollowUpIds])],
    promptHashes: new Map(Object.entries(final.promptHashes ?? {})),
    // From the chain's first start event; the defaults where Temporal no longer keeps it.
    options: givenOptions(input ?? {}),
    inputHash: await readInputHash(client, run),
    title: run.title ?? (input?.prompt == null ? null : jobTitle({ projectId: input.projectId, prompt: input.prompt })),
    titles: await readTitles(client, run),
  };
}

/** They help people alone: whatever is wrong with them, the follow-up is sent. */
async function readTitles(client: Client, { workflowId }: RunRecord): Promise<Titles> {
  try {
    const run = await readDescription(client, workflowId);
    return { summary: (await run.staticSummary()) || null, details: (await run.staticDetails()) || null };
  } catch {
    return { summary: null, details: null };
  }
}

function noJob({ workflowId }: RunRecord, end: string): NoJobError {
  return new NoJobError(workflowId, `the workflow has ended (${end}) and knows no job to send a follow-up to`);
}

async function readEarlierIds(client: Client, workflowId: string, jobId: string, runIds: string[]): Promise<string[]> {
  const ids: string[] = [];
  for await (const final of concurrently(runIds, {}, (runId) => readEarlierState(client, { workflowId, runId }))) {
    const isOfThisJob = final?.jobId === null || final?.jobId === jobId;
    if (isOfThisJob) ids.push(...(final?.usedFollowUpIds ?? []));
  }
  return ids;
}

/** Null where there is nothing to know: the run created no job, or Temporal has deleted it since it was listed. */
async function readEarlierState(client: Client, run: EndedRun): Promise<FinalState | null> {
  const final = await readFinalState(client, run).catch(nullIfGone);
  return final === null || 'failedAs' in final ? null : final;
}

/** `failedAs` is the type of a failure that means that surely no job was created. */
async function readFinalState(client: Client, run: EndedRun): Promise<FinalState | { failedAs: string }> {
  const end = await readRunEnd(client, run.workflowId, run.runId);
  if (createdNoJob(end)) return { failedAs: end.failureType };
  const final = 'result' in end ? end.result : ((await unbegunState(client, run)) ?? (await queryState(client, run)));
  if (!tellsUsedIds(final)) throw usedIdsUnknown(run, 'does not tell which follow-up ids it used');
  return final;
}

/** A worker of another release, or a person, may have ended the run with anything. */
function tellsUsedIds(final: Partial<FinalState> | null | undefined): final is FinalState {
  const lists = [final?.usedFollowUpIds, final?.followUps];
  return typeof final?.projectId === 'string' && lists.every((list) => Array.isArray(list));
}

/** A run that was ended before it began can't answer a query, and has used nothing but what it was given. */
async function unbegunState(client: Client, run: EndedRun): Promise<Partial<FinalState> | null> {
  const input = await readUnbegunInput(client, run.workflowId, run.runId);
  if (input === null) return null;
  const { usedFollowUpIds } = input as Partial<AttachJobInput>;
  return {
    projectId: input.projectId,
    jobId: input.jobId ?? null,
    job: null,
    followUps: [],
    usedFollowUpIds: usedFollowUpIds ?? [],
  };
}

/** A run that ended without a result still answers its query, while a worker runs and its history is kept. */
async function queryState(client: Client, run: EndedRun): Promise<FinalState> {
  try {
    return await client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, () => askClosedRun(client, run));
  } catch (cause) {
    const text = 'ended without a result and does not tell which follow-up ids it used; start a worker and try again';
    throw usedIdsUnknown(run, text, cause);
  }
}

function usedIdsUnknown({ workflowId, runId }: EndedRun, text: string, cause?: unknown): UsedIdsUnknownError {
  const options = cause === undefined ? {} : { cause, retryable: true };
  return new UsedIdsUnknownError(workflowId, `the ended run ${runId} ${text}`, options);
}

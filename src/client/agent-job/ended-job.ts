/** What the ended runs of a job leave behind: its id, the follow-up ids that are used up, and the caller's options. */
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  jobStateQuery,
  type AgentJobOptions,
  type AttachJobInput,
  type FollowUpStatus,
  type JobRecord,
  type JobState,
} from '../../contract.js';
import { givenOptions } from '../../agent-job/input.js';
import { jobTitle } from '../../agent-job/title.js';
import { NoJobError, UsedIdsUnknownError } from '../errors.js';
import { concurrently } from '../concurrently.js';
import type { EarlierRuns } from './earlier-runs.js';
import { createdNoJob, readDescription, readRunEnd, type RunRecord } from './run-record.js';
import { readInputHash, readStartInput, readUnbegunInput } from './start-input.js';
import { askWorkflow } from '../../temporal/workflow-clients.js';

/** A query of a closed run is answered by replay; longer means that no worker is there. */
const QUERY_TIMEOUT_MS = 10_000;

/** What a run that goes on with an ended one must know. */
export interface EndedJob {
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
export async function readEndedJob(client: Client, run: RunRecord, earlier: EarlierRuns): Promise<EndedJob> {
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
  try {
    const final = await readFinalState(client, run);
    return 'failedAs' in final ? null : final;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
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
    return await client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, () => askWorkflow(client, run, jobStateQuery));
  } catch (cause) {
    const text = 'ended without a result and does not tell which follow-up ids it used; start a worker and try again';
    throw usedIdsUnknown(run, text, cause);
  }
}

function usedIdsUnknown({ workflowId, runId }: EndedRun, text: string, cause?: unknown): UsedIdsUnknownError {
  const options = cause === undefined ? {} : { cause, retryable: true };
  return new UsedIdsUnknownError(workflowId, `the ended run ${runId} ${text}`, options);
}

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
import type { EarlierRuns } from './earlier-runs.js';
import { NoJobError, UsedIdsUnknownError } from '../errors.js';
import { inBatches } from '../in-batches.js';
import { isJobless, readEnd } from './outcome.js';
import { readInputHash, readStartInput, readUnbegunInput, type RunRecord } from './run-record.js';

/** A query of a closed run is answered by replay; longer means that no worker is there. */
const QUERY_MS = 10_000;

/** What a run that goes on with an ended one must know. */
export interface EndedJob {
  projectId: string;
  jobId: string;
  job: JobRecord | null;
  followUps: FollowUpStatus[];
  usedFollowUpIds: string[];
  options: AgentJobOptions;
  inputHash: string | null;
}

type Ending = Pick<JobState, 'projectId' | 'jobId' | 'job' | 'followUps' | 'usedFollowUpIds'>;
type EndedRun = Pick<RunRecord, 'workflowId' | 'runId'>;

/** Reads what the ended runs of a workflow id leave behind; throws NoJobError, or UsedIdsUnknownError rather than forget ids. */
export async function readEndedJob(client: Client, run: RunRecord, earlier: EarlierRuns): Promise<EndedJob> {
  const ending = await readEnding(client, run);
  if ('jobless' in ending) throw noJob(run, `failed as ${ending.jobless}`);
  const jobId = ending.jobId ?? run.jobId;
  if (jobId === null) throw noJob(run, run.status.toLowerCase());
  const earlierIds = await readEarlierIds(client, run.workflowId, jobId, earlier.unknownToLast);
  return {
    projectId: ending.projectId,
    jobId,
    job: ending.job,
    followUps: ending.followUps,
    usedFollowUpIds: [...new Set([...earlierIds, ...ending.usedFollowUpIds])],
    options: await readOptions(client, run),
    inputHash: await readInputHash(client, run),
  };
}

function noJob({ workflowId }: RunRecord, ending: string): NoJobError {
  return new NoJobError(workflowId, `the workflow has ended (${ending}) and knows no job to send a follow-up to`);
}

async function readEarlierIds(client: Client, workflowId: string, jobId: string, runIds: string[]): Promise<string[]> {
  const endings = await inBatches(runIds, (runId) => readKept(client, { workflowId, runId }));
  const ofThisJob = endings.filter((ending) => ending?.jobId === null || ending?.jobId === jobId);
  return ofThisJob.flatMap((ending) => ending?.usedFollowUpIds ?? []);
}

/** Null where there is nothing to know: the run made no job, or Temporal has deleted it since it was listed. */
async function readKept(client: Client, run: EndedRun): Promise<Ending | null> {
  try {
    const ending = await readEnding(client, run);
    return 'jobless' in ending ? null : ending;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

async function readEnding(client: Client, run: EndedRun): Promise<Ending | { jobless: string | null }> {
  const end = await readEnd(client, run.workflowId, run.runId);
  if ('failureType' in end && isJobless(end.failureType)) return { jobless: end.failureType };
  const ending =
    'result' in end ? end.result : ((await unbegunEnding(client, run)) ?? (await queryEnding(client, run)));
  if (!tellsUsedIds(ending)) throw usedIdsUnknown(run, 'does not tell which follow-up ids it used');
  return ending;
}

/** A worker of another release, or a person, may have ended the run with anything. */
function tellsUsedIds(ending: Partial<Ending> | null | undefined): ending is Ending {
  const lists = [ending?.usedFollowUpIds, ending?.followUps];
  return typeof ending?.projectId === 'string' && lists.every((list) => Array.isArray(list));
}

/** A run that was ended before it began can't answer a query, and has used nothing but what it was given. */
async function unbegunEnding(client: Client, run: EndedRun): Promise<Partial<Ending> | null> {
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
async function queryEnding(client: Client, run: EndedRun): Promise<Ending> {
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  try {
    return await client.withDeadline(Date.now() + QUERY_MS, () => handle.query(jobStateQuery));
  } catch (cause) {
    const text = 'ended without a result and does not tell which follow-up ids it used; start a worker and try again';
    throw usedIdsUnknown(run, text, cause);
  }
}

function usedIdsUnknown({ workflowId, runId }: EndedRun, text: string, cause?: unknown): UsedIdsUnknownError {
  return new UsedIdsUnknownError(workflowId, `the ended run ${runId} ${text}`, { cause });
}

const OPTIONS = [
  'deadline',
  'polling',
  'onUnknownOutcome',
  'decideWithin',
  'settle',
  'linger',
] as const satisfies readonly (keyof AgentJobOptions)[];

/** The caller's own options, from the chain's first start event; the defaults where Temporal no longer keeps it. */
async function readOptions(client: Client, run: RunRecord): Promise<AgentJobOptions> {
  const input = await readStartInput(client, run.workflowId, run.firstRunId);
  const given = OPTIONS.filter((name) => input?.[name] != null);
  return Object.fromEntries(given.map((name) => [name, input?.[name]]));
}

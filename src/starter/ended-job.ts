import type { Client } from '@temporalio/client';
import {
  jobStateQuery,
  type AgentJobOptions,
  type FollowUpStatus,
  type JobRecord,
  type JobState,
} from '../contract.js';
import { NoJobError, UsedIdsUnknownError } from './errors.js';
import { isJobless, readEnd } from './outcome.js';
import { readInputHash, readStartInput, type RunRecord } from './run-record.js';

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

/** Reads what an ended run leaves behind; throws NoJobError, or UsedIdsUnknownError rather than forget ids. */
export async function readEndedJob(client: Client, run: RunRecord): Promise<EndedJob> {
  const { workflowId } = run;
  const end = await readEnd(client, workflowId, run.runId);
  if ('failureType' in end && isJobless(end.failureType)) throw noJob(run, `failed as ${end.failureType}`);
  const ending = 'result' in end ? end.result : await queryEnding(client, run);
  const jobId = ending.jobId ?? run.jobId;
  if (jobId === null) throw noJob(run, run.status.toLowerCase());
  return {
    projectId: ending.projectId,
    jobId,
    job: ending.job,
    followUps: ending.followUps,
    usedFollowUpIds: ending.usedFollowUpIds,
    options: await readOptions(client, run),
    inputHash: await readInputHash(client, run),
  };
}

function noJob({ workflowId }: RunRecord, ending: string): NoJobError {
  return new NoJobError(workflowId, `the workflow has ended (${ending}) and knows no job to send a follow-up to`);
}

/** A run that ended without a result still answers its query, while a worker runs and its history is kept. */
async function queryEnding(client: Client, { workflowId, runId, status }: RunRecord): Promise<Ending> {
  const handle = client.workflow.getHandle(workflowId, runId);
  try {
    return await client.withDeadline(Date.now() + QUERY_MS, () => handle.query(jobStateQuery));
  } catch (cause) {
    const text = `the ended run (${status.toLowerCase()}) does not tell which follow-up ids it used; start a worker and try again`;
    throw new UsedIdsUnknownError(workflowId, text, { cause });
  }
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

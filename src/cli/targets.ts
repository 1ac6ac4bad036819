/**
 * How a command names one job: by its workflow id, by project and key, by the key alone where that is unique, or by the
 * upstream's id.
 */
import type { Command } from 'commander';
import { AGENT_JOB_WORKFLOW, LIMIT, agentJobOf, agentJobWorkflowId } from '../contract.js';
import type { AgentJobs, JobHandle, JobSummary } from '../starter.js';
import { isOpen } from '../temporal/open-workflows.js';
import { UsageError } from './exit.js';
import type { Session } from './session.js';
import { printable } from './show.js';

/** The flags of `addJobNameOptions`. */
export interface JobNameFlags {
  project?: string | undefined;
  key?: string | undefined;
  /** The upstream's id. */
  jobId?: string | undefined;
}

/** A job as it was typed. */
interface JobName extends JobNameFlags {
  /** A workflow id, or a key. */
  given?: string | undefined;
}

/** So many of the newest jobs are looked at for a key alone: some seconds' work. */
const MAX_JOBS = 20_000;
const SHOWN_CANDIDATES = 10;

/** Adds `--project` and `--key`. */
export function addKeyOptions(command: Command): Command {
  return command
    .option('--key <key>', 'the job that was started under this key; alone where one job has it')
    .option('--project <id>', 'and in this project');
}

/** Adds `--job-id`, for a command to which it means nothing else. */
export function addJobIdOption(command: Command): Command {
  return command.option('--job-id <id>', 'the workflow that has this job of the upstream');
}

/** Checks that a job is named, and once. */
export function readJobName({ given, project, key, jobId }: JobName): JobName {
  const count = [given, key, jobId].filter((named) => named !== undefined).length;
  if (count > 1) throw new UsageError('give a workflow id, --key or --job-id, not two of them');
  if (count === 0) {
    throw new UsageError('name a job by its workflow id, its --key or its --job-id');
  }
  return { given, project, key, jobId };
}

/** The handle of the job that is meant; throws where a key alone, or an upstream's id, names none or several. */
export async function findJob({ jobs, signal }: Session, { given, project, key, jobId }: JobName): Promise<JobHandle> {
  if (jobId !== undefined) return jobs.handle(await holderOf(jobs, { jobId, projectId: project }, signal));
  if (given !== undefined && project === undefined) {
    if (given.includes('/') || (await isWorkflow(jobs, given, signal))) return jobs.handle(given);
    return jobs.handle((await jobOfKey(jobs, given, signal)) ?? given);
  }
  const named = key ?? given ?? '';
  if (project !== undefined) return jobs.handle(inProject(named, project, key !== undefined));
  const found = await jobOfKey(jobs, named, signal);
  if (found !== undefined) return jobs.handle(found);
  throw new Error(`no job was started under the key ${JSON.stringify(named)}; Temporal lists a new job after a moment`);
}

/** A workflow id of ours must be of the project; anything else is a key. */
function inProject(named: string, projectId: string, isKey: boolean) {
  const ours = isKey || !named.startsWith('agent-job/') ? null : agentJobOf(named);
  if (ours === null) return { projectId, key: named };
  if (ours.projectId !== projectId)
    throw new UsageError(`the workflow id is of the project ${ours.projectId}, not ${projectId}`);
  return named;
}

/** Any id may have been chosen by a caller in another language. */
async function isWorkflow({ client }: AgentJobs, workflowId: string, signal: AbortSignal): Promise<boolean> {
  const { readRun } = await import('../client/agent-job/run-record.js');
  const { temporalCall } = await import('../client/temporal-call.js');
  try {
    await temporalCall(client, { signal }, () => readRun(client, workflowId));
    return true;
  } catch (error) {
    // There is none, or it is another application's.
    const { name } = error as Error;
    if (name === 'JobNotFoundError' || name === 'KeyConflictError') return false;
    throw error;
  }
}

async function holderOf(
  jobs: AgentJobs,
  filter: { jobId: string; projectId: string | undefined },
  signal: AbortSignal,
): Promise<string> {
  const found = new Set<string>();
  for await (const { workflowId } of jobs.list(filter, { signal })) found.add(workflowId);
  const named = JSON.stringify(filter.jobId);
  const workflowId = onlyOne([...found], `have the job ${named}`);
  if (workflowId !== undefined) return workflowId;
  throw new Error(`no workflow has the job ${named}; Temporal lists it a moment after its create`);
}

async function jobOfKey(jobs: AgentJobs, key: string, signal: AbortSignal): Promise<string | undefined> {
  const { listWorkflows } = await import('../client/temporal-call.js');
  const end = agentJobWorkflowId('p', key).slice('agent-job/p'.length);
  const isOfKey = (id: string) => /^agent-job\/[^/]+\/[^/]+$/.test(id) && id.endsWith(end);
  const found = new Set<string>();
  let looks = 0;
  for await (const { workflowId } of listWorkflows(jobs.client, `WorkflowType = '${AGENT_JOB_WORKFLOW}'`, { signal })) {
    signal.throwIfAborted();
    if (isOfKey(workflowId)) found.add(workflowId);
    if (++looks === MAX_JOBS) {
      throw new Error(`the newest ${MAX_JOBS} jobs do not tell whether the key is unique: add --project`);
    }
  }
  return onlyOne([...found], `have the key ${JSON.stringify(key)}`);
}

/** Throws where there are several. */
function onlyOne(candidates: readonly string[], what: string): string | undefined {
  if (candidates.length < 2) return candidates[0];
  const shown = candidates.slice(0, SHOWN_CANDIDATES).map((id) => `  ${printable(id)}`);
  const rest = candidates.length - shown.length;
  const head = `${candidates.length} jobs ${what}; add --project, or name one by its id:`;
  throw new Error([head, ...shown, ...(rest > 0 ? [`  … and ${rest} more`] : [])].join('\n'));
}

/** No job has the label. */
export class NoJobsError extends Error {
  override readonly name = 'NoJobsError';
}

/** What a command is for: one job, or all jobs of a batch. */
type Target = { job: JobName; batch: null } | { job: null; batch: string };

/** Checks that exactly one of the two is given. */
export async function readTarget(
  given: string | undefined,
  { batch, project, key, jobId }: JobNameFlags & { batch?: string | undefined },
): Promise<Target> {
  if (batch === undefined) return { job: readJobName({ given, project, key, jobId }), batch: null };
  if ((given ?? project ?? key ?? jobId) !== undefined) throw new UsageError('give a workflow id or --batch, not both');
  return { job: null, batch: await checkBatch(batch) };
}

/** Checks a label as the start of a job does. */
async function checkBatch(batch: string): Promise<string> {
  const { checkLabel } = await import('../contract/input-checks.js');
  return checkLabel(batch, 'batch', LIMIT.batchBytes);
}

/** Lists the jobs of a batch. A label that no job has is an error, for it may be mistyped. */
export async function readBatch(jobs: AgentJobs, batch: string, signal: AbortSignal): Promise<JobSummary[]> {
  const found: JobSummary[] = [];
  for await (const job of jobs.list({ batch }, { signal })) {
    signal.throwIfAborted();
    found.push(job);
  }
  if (found.length === 0) throw noJobs(batch);
  return found;
}

/** Throws where a command found nothing because no job at all has the label. */
export async function requireBatch(jobs: AgentJobs, batch: string | undefined, signal: AbortSignal): Promise<void> {
  if (batch !== undefined && (await jobs.count({ batch }, { signal })).total === 0) throw noJobs(batch);
}

function noJobs(batch: string): NoJobsError {
  return new NoJobsError(`no job has the batch ${JSON.stringify(batch)}; Temporal lists a new job after a moment`);
}

/** Whether a job's workflow has not closed. */
export function isRunning({ workflowStatus }: JobSummary): boolean {
  return isOpen(workflowStatus);
}

/**
 * How a command names one job: by its workflow id, by project and key, by the key alone where that is unique, or by the
 * upstream's id.
 */
import type { Command } from 'commander';
import type { AgentJobs, JobHandle } from '../starter.js';
import { UsageError } from './exit.js';
import type { Session } from './session.js';
import { printable } from './text.js';

/** The flags of `addJobNameOptions`. */
export interface JobNameFlags {
  project?: string | undefined;
  key?: string | undefined;
  /** The upstream's id. */
  jobId?: string | undefined;
}

/** A job as it was typed. */
export interface JobName extends JobNameFlags {
  /** A workflow id, or a key. */
  given?: string | undefined;
}

/** So many of the newest jobs are looked at for a key alone: some seconds' work. */
const MAX_JOBS = 20_000;
const SHOWN_CANDIDATES = 10;

/** A key alone, or an upstream's id, that more than one job has. */
class AmbiguousNameError extends Error {
  override readonly name = 'AmbiguousNameError';
}

/** Adds `--project`, `--key` and `--job-id`. */
export function addJobNameOptions(command: Command, project?: string): Command {
  return addKeyOptions(command, project).option('--job-id <id>', 'the workflow that has this job of the upstream');
}

/** Adds `--project` and `--key`, for a command to which `--job-id` means something else. */
export function addKeyOptions(command: Command, project = 'and in this project'): Command {
  return command
    .option('--key <key>', 'the job that was started under this key; alone where one job has it')
    .option('--project <id>', project);
}

/** Checks that a job is named, and once. */
export function readJobName({ given, project, key, jobId }: JobName): JobName {
  const count = [given, key, jobId].filter((named) => named !== undefined).length;
  if (count > 1) throw new UsageError('give a workflow id, --key or --job-id, not two of them');
  if (count === 0) {
    throw new UsageError('name a job by its workflow id, or jobs with --batch; or a job by its --key or --job-id');
  }
  return { given, project, key, jobId };
}

/** The handle of the job that is meant; throws where a key alone, or an upstream's id, names none or several. */
export async function findJob({ jobs, signal }: Session, { given, project, key, jobId }: JobName): Promise<JobHandle> {
  if (jobId !== undefined) return jobs.handle(await holderOf(jobs, { jobId, projectId: project }, signal));
  if (given !== undefined && project === undefined) {
    if (given.includes('/') || (await isWorkflow(jobs, given, signal))) return jobs.handle(given);
    const [found] = await jobsOfKey(jobs, given, signal);
    return jobs.handle(found ?? given);
  }
  const named = key ?? given ?? '';
  if (project !== undefined) return jobs.handle(await inProject(named, project, key !== undefined));
  const [found] = await jobsOfKey(jobs, named, signal);
  if (found !== undefined) return jobs.handle(found);
  throw new Error(`no job was started under the key ${JSON.stringify(named)}; Temporal lists a new job after a moment`);
}

/** A workflow id of ours must be of the project; anything else is a key. */
async function inProject(named: string, projectId: string, isKey: boolean) {
  const { agentJobOf } = await import('../contract.js');
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
  return temporalCall(client, { signal }, () => readRun(client, workflowId)).then(
    () => true,
    (error: Error) => {
      // There is none, or it is another application's.
      if (error.name === 'JobNotFoundError' || error.name === 'KeyConflictError') return false;
      throw error;
    },
  );
}

async function holderOf(
  jobs: AgentJobs,
  filter: { jobId: string; projectId: string | undefined },
  signal: AbortSignal,
): Promise<string> {
  const found = new Set<string>();
  for await (const { workflowId } of jobs.list(filter, { signal })) found.add(workflowId);
  const [workflowId, ...others] = found;
  const { jobId } = filter;
  if (workflowId === undefined) {
    throw new Error(`no workflow has the job ${JSON.stringify(jobId)}; Temporal lists it a moment after its create`);
  }
  if (others.length > 0)
    throw new AmbiguousNameError(ambiguityText(`have the job ${JSON.stringify(jobId)}`, [...found]));
  return workflowId;
}

async function jobsOfKey(jobs: AgentJobs, key: string, signal: AbortSignal): Promise<string[]> {
  const { AGENT_JOB_WORKFLOW, agentJobWorkflowId } = await import('../contract.js');
  const { listWorkflows } = await import('../client/temporal-call.js');
  const end = agentJobWorkflowId('p', key).slice('agent-job/p'.length);
  const isOfKey = (id: string) => /^agent-job\/[^/]+\/[^/]+$/.test(id) && id.endsWith(end);
  const found = new Set<string>();
  let looks = 0;
  // Every run: a list of jobs leaves out those that others have followed.
  for await (const { workflowId } of listWorkflows(jobs.client, `WorkflowType = '${AGENT_JOB_WORKFLOW}'`, { signal })) {
    signal.throwIfAborted();
    if (isOfKey(workflowId)) found.add(workflowId);
    if (++looks === MAX_JOBS) {
      throw new Error(`the newest ${MAX_JOBS} jobs do not tell whether the key is unique: add --project`);
    }
  }
  if (found.size > 1) throw new AmbiguousNameError(ambiguityText(`have the key ${JSON.stringify(key)}`, [...found]));
  return [...found];
}

function ambiguityText(what: string, candidates: readonly string[]): string {
  const shown = candidates.slice(0, SHOWN_CANDIDATES).map((id) => `  ${printable(id)}`);
  const rest = candidates.length - shown.length;
  const head = `${candidates.length} jobs ${what}; add --project, or name one by its id:`;
  return [head, ...shown, ...(rest > 0 ? [`  … and ${rest} more`] : [])].join('\n');
}

/** What is asked of the client, and the bodies of the answers: the same over HTTP and as tools of an agent. */
import { TAGS } from '../agent-job/labels.js';
import { agentJobOf, type AgentJobResult, JOB_OUTCOMES, type JobState, LIMIT, PHASES } from '../contract.js';
import { InvalidInputError } from '../contract/input-checks.js';
import { type Kind, label, oneOf, TEXT } from '../contract/kinds.js';
import { AgentJobsError, CreateRejectedError, JobTerminatedError, UnknownOutcomeError } from '../client/errors.js';
import type { AgentJobs, JobFilter, JobHandle, StartRequest } from '../starter.js';
import { checkKey } from './address.js';
import { type Call, PAGE_SIZE, whileWanted } from './request.js';

/** What there is of a job; a result once its run is over. */
export interface JobBody {
  key: string | null;
  workflowId: string;
  state: JobState | null;
  result: AgentJobResult | { failure: object } | null;
}

/** The client says what is wrong with it. */
const TIME: Kind<string> = { ...TEXT, schema: () => ({ type: 'string', format: 'date-time' }) };

function told<Given, Parsed>(description: string, kind: Kind<Given, Parsed>): Kind<Given, Parsed> {
  return { ...kind, schema: () => ({ ...kind.schema(), description }) };
}

/** By what jobs are listed. */
export const JOBS_QUERY = {
  phase: told('Only jobs whose workflows do this.', oneOf(...PHASES)),
  outcome: told('Only jobs that ended so.', oneOf(...JOB_OUTCOMES)),
  status: told("Only jobs of this status, the upstream's own, as last read.", label(LIMIT.recordBytes)),
  tag: told('Only jobs that have all of these tags.', TAGS),
  batch: told('Only jobs with this label, by which they were started together.', label(LIMIT.batchBytes)),
  endedAfter: told('Only runs that ended at this time or later; ISO 8601.', TIME),
  limit: told('At most so many jobs; default 100.', PAGE_SIZE),
  cursor: told('The `nextCursor` of the page before.', TEXT),
};

/** A caller is told within 10 seconds that Temporal is away. */
export const START_TIMEOUT_MS = 9_000;
export const STATE_TIMEOUT_MS = 10_000;
/** Of a run that is over: another may have begun since. */
const RESULT_TIMEOUT_MS = 5_000;

/** Starts a job, or joins it; the state is null where no worker tells it in time: the job is started all the same. */
export async function startedJob(jobs: AgentJobs, request: StartRequest & { key: string }) {
  const key = checkKey(request.key);
  const job = await jobs.start(request, { timeoutMs: START_TIMEOUT_MS });
  const { workflowId, isNew } = job;
  const state = await job.state({ timeoutMs: STATE_TIMEOUT_MS }).catch(() => null);
  return { key, workflowId, isNew, state };
}

/** Reads a job as it is now. */
export async function readJob(job: JobHandle, call: Pick<Call, 'gone' | 'ending'>): Promise<JobBody> {
  const state = await job.state({ signal: call.gone, timeoutMs: STATE_TIMEOUT_MS }).catch(nullIfUnbegun);
  const isOver = state === null || state.phase === 'done';
  const read = (signal: AbortSignal) => resultOf(job, state, signal);
  const result = isOver ? await whileWanted(call, RESULT_TIMEOUT_MS, read) : null;
  const { key, workflowId } = job;
  return { key, workflowId, state, result };
}

/** One page of a project's jobs, by the parameters of the call. */
export async function pageOfJobs(
  jobs: AgentJobs,
  query: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<{ jobs: object[]; nextCursor: string | null }> {
  const { tag: tags, limit: pageSize, cursor, ...others } = query as Record<string, never>;
  const filter: JobFilter = { ...others, tags };
  const { jobs: found, nextCursor } = await jobs.listPage(filter, { pageSize, cursor, signal });
  const rows = found.map((job) => ({ key: agentJobOf(job.workflowId)?.key ?? null, ...job }));
  return { jobs: rows, nextCursor };
}

/** Errors that tell of an end without a result. */
const ENDS = ['CREATE_REJECTED', 'INVALID_INPUT', 'JOB_CANCELED', 'JOB_FAILED', 'JOB_TERMINATED', 'UNKNOWN_OUTCOME'];

/** Waits for the end: the result, or the failure where there is none. */
export async function resultOf(
  job: JobHandle,
  state: JobState | null,
  signal: AbortSignal,
): Promise<AgentJobResult | { failure: object }> {
  try {
    return await job.result({ signal });
  } catch (error) {
    if (!(error instanceof AgentJobsError && ENDS.includes(error.code))) throw error;
    // The state tells a time-out of Temporal's from a termination; the other errors are named as their outcomes.
    const type = state?.outcome ?? error.name.replace(/^Job|Error$/g, '');
    return { failure: { type, message: error.message, details: detailsOf(error) } };
  }
}

function detailsOf(error: unknown): object | null {
  if (error instanceof InvalidInputError) return { field: error.field };
  if (error instanceof CreateRejectedError) return { status: error.status, error: error.error };
  return error instanceof UnknownOutcomeError ? error.details : null;
}

/** A run that ended before a worker began it has no state. */
export function nullIfUnbegun(error: unknown): null {
  if (error instanceof JobTerminatedError) return null;
  throw error;
}

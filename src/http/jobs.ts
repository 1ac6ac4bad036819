/** What callers do with jobs over HTTP: each handler is one call of the client, and its answer. */
import { agentJobOf, type AgentJobResult, type JobState, type ResolveUnknownInput } from '../contract.js';
import { InvalidInputError } from '../contract/input-checks.js';
import { AgentJobsError, CreateRejectedError, JobTerminatedError, UnknownOutcomeError } from '../client/errors.js';
import type { FollowUpOptions, JobFilter, JobHandle, StartRequest } from '../starter.js';
import { checkKey, jobPath } from './address.js';
import { Problem } from './problem.js';
import { type Answer, type Call, idempotencyKeyOf, waitOf, whileWanted } from './request.js';

/** Callers, and proxies before them, give up after a minute at most, as a rule. */
const START_TIMEOUT_MS = 20_000;
const STATE_TIMEOUT_MS = 10_000;
/** Of a run that is over: another may have begun since. */
const RESULT_TIMEOUT_MS = 5_000;

/** Starts a job, or joins it; the state is null where no worker tells it in time: the job is started all the same. */
export async function startJob({ jobs, projectId, body, request }: Call): Promise<Answer> {
  const key = idempotencyKeyOf(request);
  if (key === undefined) throw new Problem(400, 'the header Idempotency-Key is missing: it is the key of the job');
  const start = { ...body, key: checkKey(key), projectId } as StartRequest;
  const job = await jobs.start(start, { timeoutMs: START_TIMEOUT_MS });
  const { workflowId, isNew } = job;
  const state = await job.state({ timeoutMs: STATE_TIMEOUT_MS }).catch(() => null);
  const headers = { location: jobPath(workflowId) };
  return { status: isNew ? 201 : 200, headers, body: { key, workflowId, isNew, state } };
}

/** Reads a job, with `Prefer: wait` when its run is over. */
export async function getJob(call: Call): Promise<Answer> {
  const { request, gone } = call;
  const job = call.job();
  const waitMs = waitOf(request);
  // However it ended, and whether it did, is read below.
  if (waitMs > 0) await whileWanted(call, waitMs, (signal) => job.result({ signal })).catch(() => {});
  gone.throwIfAborted();
  const state = await job.state({ signal: gone, timeoutMs: STATE_TIMEOUT_MS }).catch(nullIfUnbegun);
  const isOver = state === null || state.phase === 'done';
  const read = (signal: AbortSignal) => resultOf(job, state, signal);
  const result = isOver ? await whileWanted(call, RESULT_TIMEOUT_MS, read) : null;
  const { key, workflowId } = job;
  return { status: 200, body: { key, workflowId, state, result } };
}

/** Queues a follow-up, with `Prefer: wait` until its fate is known. */
export async function followUp(call: Call): Promise<Answer> {
  const { request, gone: signal } = call;
  const { prompt, ...given } = call.body as Record<'prompt', string> & FollowUpOptions & Call['body'];
  const options = { ...given, id: given.id ?? idempotencyKeyOf(request) };
  const timeoutMs = waitOf(request);
  if (timeoutMs === 0) {
    const { id } = await call.job().followUp(prompt, { ...options, timeoutMs: START_TIMEOUT_MS });
    return { status: 202, body: { id, state: 'queued' } };
  }
  const fate = await call.job().sendFollowUp(prompt, { ...options, timeoutMs, signal });
  return { status: fate.state === 'queued' ? 202 : 200, body: fate };
}

/** Asks for a cancellation; Temporal's history has the name of the key. */
export async function cancelJob({ job, caller: { name: by } }: Call): Promise<Answer> {
  await job().cancel({ by });
  return { status: 202, body: {} };
}

/** Has the job read at once. */
export async function pollNow({ job, caller: { name: by } }: Call): Promise<Answer> {
  await job().pollNow({ by });
  return { status: 202, body: {} };
}

/** Settles a write in doubt. */
export async function resolveJob({ job, body, caller: { name: by } }: Call): Promise<Answer> {
  return { status: 200, body: await job().resolve({ by, ...body } as ResolveUnknownInput) };
}

/** Lists one page of a project's jobs. */
export async function listJobs({ jobs, projectId, query, gone: signal }: Call): Promise<Answer> {
  const { tag: tags, limit: pageSize, cursor, ...others } = query as Record<string, never>;
  const filter: JobFilter = { ...others, tags, projectId };
  const { jobs: found, nextCursor } = await jobs.listPage(filter, { pageSize, cursor, signal });
  const rows = found.map((job) => ({ key: agentJobOf(job.workflowId)?.key ?? null, ...job }));
  return { status: 200, body: { jobs: rows, nextCursor } };
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

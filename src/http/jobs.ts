/** What callers do with jobs over HTTP: each handler is one call of the client, and its answer. */
import { ATTRIBUTION } from '../agent-job/fields.js';
import { isOtherPrompt } from '../agent-job/input.js';
import { FollowUpConflictError } from '../client/errors.js';
import { LIMIT, type ResolveUnknownInput } from '../contract.js';
import { cutToBytes } from '../contract/input-checks.js';
import type { FollowUpOptions, JobHandle, StartRequest } from '../starter.js';
import { jobPath } from './address.js';
import { pageOfJobs, readJob, START_TIMEOUT_MS, startedJob, STATE_TIMEOUT_MS } from './bodies.js';
import { Problem } from './problem.js';
import { type Answer, type Call, idempotencyKeyOf, waitOf, whileWanted } from './request.js';

/** Starts a job, or joins it. */
export async function startJob({ jobs, projectId, body, request }: Call): Promise<Answer> {
  const key = idempotencyKeyOf(request);
  if (key === undefined) throw new Problem(400, 'the header Idempotency-Key is missing: it is the key of the job');
  const started = await startedJob(jobs, { ...body, key, projectId } as StartRequest & { key: string });
  const headers = { location: jobPath(started.workflowId) };
  return { status: started.isNew ? 201 : 200, headers, body: started };
}

/** Reads a job, with `Prefer: wait` when its run is over. */
export async function getJob(call: Call): Promise<Answer> {
  const { request, gone } = call;
  const job = call.job();
  const waitMs = waitOf(request);
  // However it ended, and whether it did, is read below.
  if (waitMs > 0) await whileWanted(call, waitMs, (signal) => job.result({ signal })).catch(() => {});
  gone.throwIfAborted();
  return { status: 200, body: await readJob(job, call) };
}

/** Queues a follow-up, with `Prefer: wait` until its fate is known. */
export async function followUp(call: Call): Promise<Answer> {
  const { request, gone: signal } = call;
  const { prompt, ...given } = call.body as Record<'prompt', string> & FollowUpOptions & Call['body'];
  const options = { ...given, id: given.id ?? idempotencyKeyOf(request) };
  const timeoutMs = waitOf(request);
  if (timeoutMs === 0) {
    const { id } = await call.job().followUp(prompt, { ...options, timeoutMs: START_TIMEOUT_MS });
    if (options.id !== undefined) await checkIsItsPrompt(call.job(), id, prompt);
    return { status: 202, body: { id, state: 'queued' } };
  }
  const fate = await call.job().sendFollowUp(prompt, { ...options, timeoutMs, signal });
  return { status: fate.state === 'queued' ? 202 : 200, body: fate };
}

/** A signal tells nobody that its id has another prompt; where no worker does in time, the job's page does. */
async function checkIsItsPrompt(job: JobHandle, id: string, prompt: string): Promise<void> {
  const state = await job.state({ timeoutMs: STATE_TIMEOUT_MS }).catch(() => null);
  if (isOtherPrompt(state?.promptHashes[id], prompt)) throw new FollowUpConflictError(job.workflowId, id);
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

/** Settles a write in doubt. Whoever else decided, the key's own name comes first. */
export async function resolveJob({ job, body, caller: { name } }: Call): Promise<Answer> {
  const told = ATTRIBUTION.by.check(body['by'], 'by');
  const by = name === null || told === null ? (name ?? told) : cutToBytes(`${name}: ${told}`, LIMIT.decisionByBytes);
  return { status: 200, body: await job().resolve({ ...body, by } as ResolveUnknownInput) };
}

/** Lists one page of a project's jobs. */
export async function listJobs({ jobs, projectId, query, gone }: Call): Promise<Answer> {
  return { status: 200, body: await pageOfJobs(jobs, { ...query, projectId }, gone) };
}

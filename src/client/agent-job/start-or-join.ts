/**
 * Decides whether a start makes a job or joins the one that the key names, and how a closed workflow id is started
 * again. Such a start uses what was read of the last run, so it must not reach Temporal once another run has followed:
 * all who read the same run share one request id, and the start has a deadline.
 */
import { randomUUID } from 'node:crypto';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { type Allowed, allowedAfter, ENDED_BY } from '../../agent-job/closed-run.js';
import { inputHash } from '../../agent-job/input.js';
import type { AgentJobStartOptions } from '../../agent-job/start-options.js';
import { AGENT_JOB_WORKFLOW, type AgentJobInput } from '../../contract.js';
import { withRequestId, withRestartRequestId } from '../../temporal/private/restart-request-id.js';
import { concurrently } from '../concurrently.js';
import { KeyConflictError } from '../errors.js';
import { START_TIMEOUT_MS, temporalCall, throwIfOver } from '../temporal-call.js';
import { isDeadlineExceeded } from '../temporal-errors.js';
import type { CallOptions } from '../settings.js';
import { listEarlierRuns, nullIfGone, readClosedRun, readInputHash, readRun, readStartInput } from './run-record.js';
import type { RunRecord } from './run-record.js';

/** Each further round means that another caller restarted the same key in between, or that a start came too late. */
const MAX_START_ROUNDS = 10;

type JobWorkflow = (input: AgentJobInput) => Promise<unknown>;

/** What a start learns of the run that answers it. */
export interface StartedRun {
  isNew: boolean;
  runId: string;
}

interface StartCall extends CallOptions {
  /** The same for each repetition of this call: the call then knows the run that it made itself. */
  requestId?: string;
}

/**
 * Starts the job, or joins the one that the same key and input already name. A key is started again only if its last
 * run surely created no job. Throws KeyConflictError.
 */
export async function startJob(
  client: Client,
  options: AgentJobStartOptions,
  { signal, timeoutMs, requestId = randomUUID() }: StartCall,
): Promise<StartedRun> {
  const limits = { signal, timeoutMs: timeoutMs ?? START_TIMEOUT_MS };
  return temporalCall(client, limits, (over) => startOrJoin(client, options, { requestId, over }));
}

/** Callers that go on at once from one run without a job share the next run; each counts as its maker. */
async function startOrJoin(
  client: Client,
  options: AgentJobStartOptions,
  { requestId, over }: { requestId: string; over: AbortSignal },
): Promise<StartedRun> {
  const { workflowId } = options;
  const wanted = inputHash(options.args[0]);
  const call = { over, withoutJob: new Set<string>() };
  for (let round = 1; round <= MAX_START_ROUNDS; round++) {
    throwIfOver(client, over);
    const made = await startNew(client, options, requestId);
    if (made !== null) return { isNew: true, runId: made };
    // Null: Temporal has deleted the closed run since the start met it.
    const run = await readRun(client, workflowId).catch(nullIfGone);
    if (run === null) continue;
    const allowed = run.isRunning ? 'nothing' : await readAllowed(client, run).catch(nullIfGone);
    if (allowed === null) continue;
    if (allowed !== 'start again') {
      if ((await readInputHash(client, run)) !== wanted) throw conflict(run);
      return { isNew: false, runId: run.runId };
    }
    const restarted = await startAgain(client, options, run, call);
    // Another caller's start of the same moment may have another input.
    if (restarted && (await readInputHash(client, restarted)) === wanted)
      return { isNew: true, runId: restarted.runId };
  }
  const text = 'others start this key again and again, or Temporal is slow to start it; each time it is rejected';
  throw new KeyConflictError(workflowId, text);
}

/** Starts a first run and returns its id; null if the workflow id is taken. */
async function startNew(client: Client, options: AgentJobStartOptions, requestId: string): Promise<string | null> {
  try {
    const { firstExecutionRunId } = await client.workflow.start<JobWorkflow>(AGENT_JOB_WORKFLOW, {
      ...options,
      ...withRequestId(requestId),
      workflowIdConflictPolicy: 'FAIL',
    });
    return firstExecutionRunId;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
    throw error;
  }
}

async function readAllowed(client: Client, run: RunRecord): Promise<Allowed> {
  if (run.workflowStatus !== 'FAILED') return allowedAfter(ENDED_BY[run.workflowStatus] ?? 'result', run.jobId);
  const { end } = await readClosedRun(client, run);
  const isWithoutJob = allowedAfter(end, null) === 'start again';
  return allowedAfter(end, isWithoutJob && !(await goesOnWithEarlierJob(client, run)) ? null : run.jobId);
}

/** A run that a follow-up started carries the first run's hash, not that of its own input: the key has a job. */
async function goesOnWithEarlierJob(client: Client, run: RunRecord): Promise<boolean> {
  if (run.memoInputHash === null) return false;
  const input = await readStartInput(client, run);
  return input?.jobId != null && inputHash(input) !== run.memoInputHash;
}

/**
 * Starts the key again after a run that created no job, and reads the newest run; null if the given run may no longer
 * be the last one. `withoutJob` is kept over the rounds: a key may have a thousand runs whose create was rejected.
 */
async function startAgain(
  client: Client,
  options: AgentJobStartOptions,
  run: RunRecord,
  { withoutJob, over }: { withoutJob: Set<string>; over: AbortSignal },
): Promise<RunRecord | null> {
  const earlier = await listEarlierRuns(client, run);
  if (earlier === null) return null;
  await checkNoJobExists(client, run, earlier.unknownToLast, withoutJob);
  const started = await restartAfter(client, { last: run, earlierRunIds: earlier.all, over }, () =>
    client.workflow.start<JobWorkflow>(AGENT_JOB_WORKFLOW, {
      ...options,
      workflowIdConflictPolicy: 'USE_EXISTING',
      workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
      ...withRestartRequestId(run.runId),
    }),
  );
  return started && readRun(client, run.workflowId);
}

/** Throws if an earlier run may have created a job, though the last one did not: a key with a job was started again. */
async function checkNoJobExists(
  client: Client,
  { workflowId }: RunRecord,
  earlier: string[],
  withoutJob: Set<string>,
): Promise<void> {
  const unread = earlier.filter((runId) => !withoutJob.has(runId));
  const read = (runId: string) => readClosedRun(client, { workflowId, runId }).catch(nullIfGone);
  for await (const run of concurrently(unread, {}, read)) {
    if (run === null) continue;
    if (allowedAfter(run.end, null) !== 'start again') {
      const text = `an earlier run of this key, ${run.runId}, may have made a job, though its last run made none`;
      throw new KeyConflictError(workflowId, `${text}: check that run, and use another key for a new job`);
    }
    withoutJob.add(run.runId);
  }
}

function conflict({ workflowId, workflowStatus, jobId }: RunRecord): KeyConflictError {
  const job = `workflow ${workflowStatus.toLowerCase()}, job ${jobId ?? 'not known'}`;
  return new KeyConflictError(
    workflowId,
    `this key names a job with another input (${job}): use another key for a new job`,
  );
}

/** From the read of a closed run to the start that goes on from it: after that it may no longer be the last run. */
const START_WITHIN_MS = 5_000;
const ATTACH_TIMEOUT_MS = 2_000;
/** Each is one request and one event in the new run's history; a caller that missed more meets the time limit. */
const MAX_ATTACHED_REQUEST_IDS = 20;

/** Sends a start that goes on from `last`. Null if it came too late, got no response, or one with a closed run. */
export async function restartAfter<T>(
  client: Client,
  { last, earlierRunIds, over }: { last: RunRecord; earlierRunIds: string[]; over: AbortSignal },
  start: () => Promise<T>,
): Promise<T | null> {
  throwIfOver(client, over);
  const leftMs = START_WITHIN_MS - last.elapsedMs();
  if (leftMs <= 0) return null;
  try {
    return await client.withDeadline(Date.now() + leftMs, start);
  } catch (error) {
    if (isDeadlineExceeded(error) || isAnsweredWithClosedRun(error)) return null;
    throw error;
  } finally {
    // Best effort: without it the time limit alone guards the start.
    const deadline = Date.now() + ATTACH_TIMEOUT_MS;
    await client.withDeadline(deadline, () => attachEarlierRequestIds(client, last, earlierRunIds)).catch(() => {});
  }
}

/** Temporal knew the request id of the start and answered with the closed run, which can't take the update. */
function isAnsweredWithClosedRun(error: unknown): boolean {
  if (error instanceof WorkflowExecutionAlreadyStartedError) return true;
  return error instanceof Error && error.message.includes('StartDeduped');
}

/**
 * A start that goes on from an older run than `last` may reach the server late. It would make a run that does not know
 * what the later runs did. So the request ids of such starts are attached to the new run while it is open: Temporal
 * then answers them with this run, even after it has closed. A server that can't attach ids answers each with the open
 * run, which harms nothing. See temporal/private/restart-request-id.ts.
 */
async function attachEarlierRequestIds(client: Client, last: RunRecord, earlierRunIds: string[]): Promise<void> {
  if (earlierRunIds.length === 0) return;
  const { workflowId, isRunning, taskQueue } = await readRun(client, last.workflowId);
  if (!isRunning) return;
  const attach = (runId: string) =>
    client.workflow.start(AGENT_JOB_WORKFLOW, {
      workflowId,
      taskQueue,
      // It meets the run that runs, or nothing: it never makes one.
      workflowIdConflictPolicy: 'USE_EXISTING',
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      ...withRestartRequestId(runId, { attachRequestId: true }),
    });
  await Promise.allSettled(earlierRunIds.slice(0, MAX_ATTACHED_REQUEST_IDS).map(attach));
}
